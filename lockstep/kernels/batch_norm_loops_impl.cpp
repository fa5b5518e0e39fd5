// Batch norm's loops, written once and compiled once for each instruction set (lockstep_instruction_sets): plain loops
// that the compiler turns into vector code. Sums are made in float64, in an order that is the same for every
// instruction set.
//
// This file must define nothing with external linkage but its one table: an inline function compiled here for AVX-512
// could otherwise be the copy that the linker keeps for the whole program. So it uses no library code at all.
// Multiplications and additions must not be contracted into one operation here (-ffp-contract=off), or the sets would
// round differently.
#include <lockstep/kernels/batch_norm_loops.h>

#ifndef LOCKSTEP_TABLE
#error "LOCKSTEP_TABLE names the table to define, e.g. avx2_batch_norm"
#endif

namespace lockstep::kernels {
namespace {

/// The number of independent partial sums, which are added up at the end: a single sum would be limited by the latency
/// of additions.
constexpr std::int64_t kParts = 16;

/// Adds term(0) to term(count - 1) to the parts.
template <typename Term>
void add_up(double (&parts)[kParts], std::int64_t count, const Term& term) {
  std::int64_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (std::int64_t part = 0; part < kParts; ++part) parts[part] += term(i + part);
  }
  for (std::int64_t part = 0; i < count; ++i, ++part) parts[part] += term(i);
}

double total(const double (&parts)[kParts]) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

/// Calls of_run(offset, length) for each contiguous run of a channel's values.
template <typename OfRun>
void each_run(const ChannelLayout& layout, std::int64_t channel, const OfRun& of_run) {
  for (std::int64_t picture = 0; picture < layout.pictures; ++picture) {
    of_run((picture * layout.channels + channel) * layout.positions, layout.positions);
  }
}

/// Calls of_row(offset of channel 0) for each position, in channels_last layout.
template <typename OfRow>
void each_row(const ChannelLayout& layout, const OfRow& of_row) {
  const std::int64_t rows = layout.pictures * layout.positions;
  for (std::int64_t row = 0; row < rows; ++row) of_row(row * layout.channels);
}

void set_zero(double* numbers, ChannelRange range) {
  for (std::int64_t c = range.begin; c < range.end; ++c) numbers[c] = 0;
}

template <typename Number>
void moments(const Number* input, ChannelLayout layout, ChannelRange range, double* __restrict mean,
             double* __restrict squares) {
  const auto values = static_cast<double>(layout.pictures * layout.positions);
  if (layout.last) {
    set_zero(mean, range);
    set_zero(squares, range);
    each_row(layout, [&](std::int64_t row) {
      for (std::int64_t c = range.begin; c < range.end; ++c) mean[c] += static_cast<double>(input[row + c]);
    });
    for (std::int64_t c = range.begin; c < range.end; ++c) mean[c] /= values;
    each_row(layout, [&](std::int64_t row) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        const double distance = static_cast<double>(input[row + c]) - mean[c];
        squares[c] += distance * distance;
      }
    });
    return;
  }
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    double sums[kParts] = {};
    each_run(layout, c, [&](std::int64_t from, std::int64_t count) {
      add_up(sums, count, [at = input + from](std::int64_t i) { return static_cast<double>(at[i]); });
    });
    const double middle = total(sums) / values;
    double distances[kParts] = {};
    each_run(layout, c, [&](std::int64_t from, std::int64_t count) {
      add_up(distances, count, [at = input + from, middle](std::int64_t i) {
        const double distance = static_cast<double>(at[i]) - middle;
        return distance * distance;
      });
    });
    mean[c] = middle;
    squares[c] = total(distances);
  }
}

template <typename Number>
void scale(const Number* __restrict input, ChannelLayout layout, ChannelRange range, const double* __restrict factor,
           const double* __restrict shift, Number* __restrict output) {
  if (layout.last) {
    each_row(layout, [&](std::int64_t row) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        output[row + c] = input[row + c] * static_cast<Number>(factor[c]) + static_cast<Number>(shift[c]);
      }
    });
    return;
  }
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    const auto by = static_cast<Number>(factor[c]);
    const auto plus = static_cast<Number>(shift[c]);
    each_run(layout, c, [&](std::int64_t from, std::int64_t count) {
      for (std::int64_t i = from; i < from + count; ++i) output[i] = input[i] * by + plus;
    });
  }
}

template <typename Number>
void sums(const Number* gradient, const Number* input, ChannelLayout layout, ChannelRange range,
          const double* __restrict mean, double* __restrict with_input, double* __restrict alone) {
  if (layout.last) {
    set_zero(with_input, range);
    set_zero(alone, range);
    each_row(layout, [&](std::int64_t row) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        const auto g = static_cast<double>(gradient[row + c]);
        with_input[c] += g * (static_cast<double>(input[row + c]) - mean[c]);
        alone[c] += g;
      }
    });
    return;
  }
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    double products[kParts] = {};
    double gradients[kParts] = {};
    each_run(layout, c, [&](std::int64_t from, std::int64_t count) {
      add_up(products, count, [g = gradient + from, x = input + from, middle = mean[c]](std::int64_t i) {
        return static_cast<double>(g[i]) * (static_cast<double>(x[i]) - middle);
      });
      add_up(gradients, count, [g = gradient + from](std::int64_t i) { return static_cast<double>(g[i]); });
    });
    with_input[c] = total(products);
    alone[c] = total(gradients);
  }
}

template <typename Number>
void gradient(const Number* __restrict of_output, const Number* __restrict input, ChannelLayout layout,
              ChannelRange range, const double* __restrict mean, const double* __restrict factor,
              const double* __restrict mean_gradient, const double* __restrict slope, Number* __restrict output) {
  const auto value = [](Number g, Number x, Number middle, Number by, Number less, Number steep) {
    return by * (g - less - steep * (x - middle));
  };
  if (layout.last) {
    each_row(layout, [&](std::int64_t row) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        output[row + c] =
            value(of_output[row + c], input[row + c], static_cast<Number>(mean[c]), static_cast<Number>(factor[c]),
                  static_cast<Number>(mean_gradient[c]), static_cast<Number>(slope[c]));
      }
    });
    return;
  }
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    const auto middle = static_cast<Number>(mean[c]);
    const auto by = static_cast<Number>(factor[c]);
    const auto less = static_cast<Number>(mean_gradient[c]);
    const auto steep = static_cast<Number>(slope[c]);
    each_run(layout, c, [&](std::int64_t from, std::int64_t count) {
      for (std::int64_t i = from; i < from + count; ++i)
        output[i] = value(of_output[i], input[i], middle, by, less, steep);
    });
  }
}

}  // namespace

extern const BatchNormTable LOCKSTEP_TABLE;
const BatchNormTable LOCKSTEP_TABLE = {
    .of_float = {moments<float>, scale<float>, sums<float>, gradient<float>},
    .of_double = {moments<double>, scale<double>, sums<double>, gradient<double>},
};

}  // namespace lockstep::kernels
