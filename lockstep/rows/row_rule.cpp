// Update loops of row optimizers (SGD, momentum, Adagrad, lazy Adam, FTRL), compiled with and without weight decay;
// and first values of rows from SplitMix64 by seed and row: sums of twelve 16-bit numbers, nearly normal, without
// libm.
#include <lockstep/rows/row_rule.h>

#include <algorithm>
#include <cmath>

namespace lockstep::rows {
namespace {

constexpr std::array<std::string_view, 1> kMomentumStates{"momentum_buffer"};
constexpr std::array<std::string_view, 1> kAdagradStates{"sum"};
constexpr std::array<std::string_view, 2> kAdamStates{"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 2> kFtrlStates{"z", "n"};

// Gradients with weight decay. Without weight decay the loop omits it: 0 times infinity is NaN.
template <bool kDecays>
float decayed(const RowUpdate& update, const float* gradients, const float* weights, std::size_t i) {
  if constexpr (kDecays) return gradients[i] + update.weight_decay * weights[i];
  return gradients[i];
}

// The loops below read and write each number once; the arrays do not overlap (restrict).

template <bool kDecays>
void apply_sgd(const RowUpdate& u, const float* __restrict g, float* __restrict w, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) w[i] -= u.lr * decayed<kDecays>(u, g, w, i);
}

template <bool kDecays>
void apply_momentum(const RowUpdate& u, const float* __restrict g, float* __restrict w, float* __restrict v,
                    std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    v[i] = u.momentum * v[i] + decayed<kDecays>(u, g, w, i);
    w[i] -= u.lr * v[i];
  }
}

template <bool kDecays>
void apply_adagrad(const RowUpdate& u, const float* __restrict g, float* __restrict w, float* __restrict a,
                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = decayed<kDecays>(u, g, w, i);
    a[i] += gradient * gradient;
    w[i] -= u.lr * gradient / (std::sqrt(a[i]) + u.eps);
  }
}

template <bool kDecays>
void apply_lazy_adam(const RowUpdate& u, const float* __restrict g, float* __restrict w, float* __restrict m,
                     float* __restrict v, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = decayed<kDecays>(u, g, w, i);
    m[i] = u.beta1 * m[i] + u.beta1_rest * gradient;
    v[i] = u.beta2 * v[i] + u.beta2_rest * (gradient * gradient);
    w[i] -= u.corrected_lr * m[i] / (std::sqrt(v[i]) / u.root_correction + u.eps);
  }
}

template <bool kDecays>
void apply_ftrl(const RowUpdate& u, const float* __restrict g, float* __restrict w, float* __restrict z,
                float* __restrict n, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = decayed<kDecays>(u, g, w, i);
    const float more = n[i] + gradient * gradient;
    const float root = std::sqrt(more);
    z[i] += gradient - (root - std::sqrt(n[i])) / u.lr * w[i];
    n[i] = more;
    const float shrunk = std::copysign(u.l1, z[i]) - z[i];
    const float weight = shrunk / (root / u.lr + u.l2_twice);
    w[i] = std::fabs(z[i]) <= u.l1 ? 0.0F : weight;
  }
}

template <bool kDecays>
void apply_rule(const RowUpdate& update, const float* gradients, const RowPlace& place, std::size_t count) {
  switch (update.rule) {
    case Rule::sgd: return apply_sgd<kDecays>(update, gradients, place.weights, count);
    case Rule::momentum: return apply_momentum<kDecays>(update, gradients, place.weights, place.states[0], count);
    case Rule::adagrad: return apply_adagrad<kDecays>(update, gradients, place.weights, place.states[0], count);
    case Rule::lazy_adam:
      return apply_lazy_adam<kDecays>(update, gradients, place.weights, place.states[0], place.states[1], count);
    case Rule::ftrl:
      if (update.lr == 0) return;  // the formula divides by lr; a warm-up begins at 0
      return apply_ftrl<kDecays>(update, gradients, place.weights, place.states[0], place.states[1], count);
  }
}

/// base^exponent by multiplications, because C libraries round pow differently.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;
constexpr int kWords = 3;               // words, each with four uniform numbers of 16 bits
constexpr std::int64_t kMean = 393210;  // the mean of the sum of twelve: 12 * 65535 / 2
constexpr double kUnit = 1.0 / 65536;

std::int64_t sum_of_parts(std::uint64_t word) {
  return static_cast<std::int64_t>((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));
}

}  // namespace

std::span<const std::string_view> state_names(Rule rule) {
  switch (rule) {
    case Rule::sgd: return {};
    case Rule::momentum: return kMomentumStates;
    case Rule::adagrad: return kAdagradStates;
    case Rule::lazy_adam: return kAdamStates;
    case Rule::ftrl: return kFtrlStates;
  }
  return {};
}

float initial_state(const RuleSettings& settings, std::size_t index) {
  const bool accumulates =
      (settings.rule == Rule::adagrad && index == 0) || (settings.rule == Rule::ftrl && index == 1);
  return accumulates ? static_cast<float>(settings.initial_accumulator) : 0;
}

RowUpdate row_update(const RuleSettings& settings, double lr, std::int64_t step) {
  RowUpdate update;
  update.rule = settings.rule;
  update.lr = static_cast<float>(lr);
  update.weight_decay = static_cast<float>(settings.weight_decay);
  update.momentum = static_cast<float>(settings.momentum);
  update.eps = static_cast<float>(settings.eps);
  update.beta1 = static_cast<float>(settings.beta1);
  update.beta1_rest = static_cast<float>(1 - settings.beta1);
  update.beta2 = static_cast<float>(settings.beta2);
  update.beta2_rest = static_cast<float>(1 - settings.beta2);
  update.l1 = static_cast<float>(settings.l1);
  update.l2_twice = static_cast<float>(2 * settings.l2);
  if (settings.rule == Rule::lazy_adam) {
    update.corrected_lr = static_cast<float>(lr / (1 - power(settings.beta1, step)));
    update.root_correction = static_cast<float>(std::sqrt(1 - power(settings.beta2, step)));
  }
  return update;
}

void apply(const RowUpdate& update, const float* gradients, const RowPlace& place, std::size_t count) {
  if (update.weight_decay == 0) {
    apply_rule<false>(update, gradients, place, count);
  } else {
    apply_rule<true>(update, gradients, place, count);
  }
}

std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

void initial_row(std::uint64_t seed, std::int64_t row, double deviation, std::span<float> numbers) {
  if (deviation == 0) {
    std::ranges::fill(numbers, 0.0F);
    return;
  }
  const double scale = deviation * kUnit;
  std::uint64_t state = mixed(mixed(seed + kGamma) + static_cast<std::uint64_t>(row) * kGamma);
  for (auto& number : numbers) {
    std::int64_t sum = 0;
    for (int word = 0; word < kWords; ++word) sum += sum_of_parts(mixed(state += kGamma));
    number = static_cast<float>(scale * static_cast<double>(sum - kMean));
  }
}

}  // namespace lockstep::rows
