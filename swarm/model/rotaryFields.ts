/**
 * How a Hugging Face config says by how much rotary positions turn: transformers 4 writes `rope_theta` and
 * `rope_scaling`, transformers 5 `rope_parameters`, also one for each type of layer. Scaled or not, it comes down to a
 * frequency for each pair of a head's elements, in float64.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import { type Config, fieldReason } from './configFields.ts';

const UNSCALED = z.looseObject({ rope_type: z.literal('default') });
const LINEAR = z.looseObject({ rope_type: z.literal('linear'), factor: z.number().min(1) });
const LLAMA3 = z
  .looseObject({
    rope_type: z.literal('llama3'),
    factor: z.number().min(1),
    low_freq_factor: z.number().positive(),
    high_freq_factor: z.number().positive(),
    original_max_position_embeddings: z.int().positive(),
  })
  .refine(({ low_freq_factor: low, high_freq_factor: high }) => high > low);
const SCALING = z.union([UNSCALED, LINEAR, LLAMA3]);
type Scaling = z.output<typeof SCALING>;

const EXPECTED = 'null or of type "default", "linear" (with a factor) or "llama3" (with its four numbers)';
const THETA = z.number().positive().nullish();
const SECTION = z.looseObject({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: THETA,
  partial_rotary_factor: z.literal(1).nullish(),
});
type Section = z.output<typeof SECTION>;

/** Which of a config's fields say how some layers turn. */
interface RotaryFields {
  /** The key of `rope_parameters` that is theirs, where it has one for each type of layer. */
  readonly layerType: 'full_attention' | 'sliding_attention';
  /** The field of transformers 4 that has theta, and theta where none says it. */
  readonly thetaField: 'rope_theta' | 'rope_local_base_freq';
  readonly theta: number;
  /** D, even. */
  readonly headWidth: number;
}

export function rotaryFrequencies(config: Config, fields: RotaryFields): Result<readonly number[]> {
  const { headWidth, thetaField } = fields;
  const given = THETA.safeParse(config[thetaField]);
  if (!given.success) return refusal(fieldReason(thetaField, 'a number above 0', config));
  let theta = given.data ?? null;
  let scaling: Scaling = { rope_type: 'default' };
  // Layers with a theta of their own are not scaled in transformers 4.
  const sources = thetaField === 'rope_theta' ? ['rope_scaling', 'rope_parameters'] : ['rope_parameters'];
  for (const field of sources) {
    const section = sectionOf(config, field, fields.layerType);
    const own = section && scalingOf(section);
    if (section === null || own === null) return refusal(fieldReason(field, EXPECTED, config));
    const { rope_theta: ownTheta } = section;
    if (typeof ownTheta === 'number') {
      if (theta !== null && theta !== ownTheta)
        return refusal(`${field}.rope_theta must equal the ${theta} given elsewhere, not ${ownTheta}`);
      theta = ownTheta;
    }
    if (own.rope_type === 'default') continue;
    if (scaling.rope_type !== 'default' && JSON.stringify(parts(scaling)) !== JSON.stringify(parts(own)))
      return refusal(`${field} must say the same as the scaling given elsewhere`);
    scaling = own;
  }
  const base = theta ?? fields.theta;
  return success(Array.from({ length: headWidth / 2 }, (_, d) => scaled(1 / base ** ((2 * d) / headWidth), scaling)));
}

/** What one of the two fields says of layers of this type; null: it is none of what it may be. */
function sectionOf(config: Config, field: string, layerType: RotaryFields['layerType']): Section | null {
  const whole = config[field] ?? {};
  const byType = z.looseObject({ [layerType]: z.looseObject({}) }).safeParse(whole);
  const parsed = SECTION.safeParse(byType.success ? byType.data[layerType] : whole);
  return parsed.success ? parsed.data : null;
}

/** Null: of no type that is computed here. */
function scalingOf(section: Section): Scaling | null {
  const type = section.rope_type ?? section.type ?? ('factor' in section ? undefined : 'default');
  const parsed = SCALING.safeParse({ ...section, rope_type: type });
  return parsed.success ? parsed.data : null;
}

/** What of a scaling changes frequencies. */
function parts(scaling: Scaling): readonly unknown[] {
  if (scaling.rope_type === 'default') return [];
  if (scaling.rope_type === 'linear') return [scaling.factor];
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: old } = scaling;
  return [factor, low, high, old];
}

/**
 * A frequency, scaled. `llama3` (Grattafiori et al. 2024): waves that come less than `low` times in the old length are as
 * long as with `linear`, those that come more than `high` times stay, and between the two it goes over in a line.
 */
function scaled(frequency: number, scaling: Scaling): number {
  if (scaling.rope_type === 'default') return frequency;
  if (scaling.rope_type === 'linear') return frequency / scaling.factor;
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: old } = scaling;
  const waves = (old * frequency) / (2 * Math.PI);
  const kept = Math.min(1, Math.max(0, (waves - low) / (high - low)));
  return kept * frequency + ((1 - kept) * frequency) / factor;
}
