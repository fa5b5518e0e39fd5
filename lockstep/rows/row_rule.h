// The numbers in rows of tables: their first values, as a pure function, so that a row can be made on any machine when
// it is first needed; and the update rules of optimizers: each number is updated independently, with its own state.
// Rows that a step does not touch, and their state, stay unchanged.
//
// In the formulas g is the gradient (plus weight_decay w, if that is not 0) and t the number of the step, from 1:
//   sgd        w -= lr g
//   momentum   v = momentum v + g; w -= lr v
//   adagrad    a += g g; w -= lr g / (sqrt a + eps)
//   lazy_adam  m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
//              w -= lr / (1 - beta1^t) m / (sqrt v / sqrt(1 - beta2^t) + eps)
//   ftrl       n' = n + g g; z += g - (sqrt n' - sqrt n) / lr w; n = n';
//              w = 0 if |z| <= l1, else (sign(z) l1 - z) / (sqrt n / lr + 2 l2)
// (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013, with per-coordinate rates lr / sqrt n). The
// weight of a number that ftrl touches follows from z and n alone, so its first value is forgotten.
//
// All numbers are float32, in the order of the formulas and without fused operations; sums and divisions of lr, t and
// the settings are made once a step, in double.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::rows {

enum class Rule { sgd, momentum, adagrad, lazy_adam, ftrl };

struct RuleSettings {
  Rule rule = Rule::sgd;
  double weight_decay = 0;
  double momentum = 0;             ///< momentum
  double beta1 = 0, beta2 = 0;     ///< lazy_adam
  double eps = 0;                  ///< adagrad, lazy_adam
  double l1 = 0, l2 = 0;           ///< ftrl
  double initial_accumulator = 0;  ///< adagrad (a), ftrl (n): before the first step
};

/// The names of the numbers that a rule keeps for each weight, at most two: momentum_buffer; sum; exp_avg, exp_avg_sq;
/// z, n.
std::span<const std::string_view> state_names(Rule rule);

/// The value of each state number before the first step.
float initial_state(const RuleSettings& settings, std::size_t index);

/// The numbers of one step: the same on every machine for the same arguments.
struct RowUpdate {
  Rule rule = Rule::sgd;
  float lr = 0, weight_decay = 0, momentum = 0, eps = 0;
  float beta1 = 0, beta1_rest = 0, beta2 = 0, beta2_rest = 0;  // rest: 1 - beta
  float corrected_lr = 0, root_correction = 0;                 // lr / (1 - beta1^t), sqrt(1 - beta2^t)
  float l1 = 0, l2_twice = 0;
};
RowUpdate row_update(const RuleSettings& settings, double lr, std::int64_t step);

/// A row, or several that follow one another: `count` weights with their gradients and states.
struct RowPlace {
  float* weights = nullptr;
  std::array<float*, 2> states{};  ///< as many as the rule uses
};

void apply(const RowUpdate& update, const float* gradients, const RowPlace& place, std::size_t count);

/// Writes row `row` of the table with this seed: numbers with mean 0 and the given deviation, nearly normal (the sum of
/// twelve uniform numbers: at most 6 deviations from 0). The same on every machine: it adds only integers, and rounds
/// one product in double to float32.
void initial_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> numbers);

/// A well mixed function of 64 bits, one to one: the last step of Steele et al.'s SplitMix ("Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
std::uint64_t mixed(std::uint64_t bits);

}  // namespace lockstep::rows
