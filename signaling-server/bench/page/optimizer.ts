/** The optimizer of every benchmark that trains or plans a training. */
export const benchOptimizer = (learningRate = 1e-3) => ({
  ...{ type: 'adamw' as const, learningRate, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 },
});
