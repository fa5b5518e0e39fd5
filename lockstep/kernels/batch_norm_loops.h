// The function tables of batch norm's loops. This header contains nothing else: batch_norm_loops_impl.cpp is compiled
// for instruction sets that this machine may lack, so it must not emit code of other headers (see there).
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The memory layout of a batch [pictures, channels, positions]: channel c of position p of picture n is at index (n *
/// channels + c) * positions + p, or, with `last`, at (n * positions + p) * channels + c.
struct ChannelLayout {
  std::int64_t pictures;
  std::int64_t channels;
  std::int64_t positions;
  bool last;
};

/// The channels [begin, end) that a call processes; arrays have all channels.
struct ChannelRange {
  std::int64_t begin;
  std::int64_t end;
};

template <typename Number>
struct BatchNormLoops {
  /// The mean of each channel, and the sum of squared deviations from it. The batch is not empty.
  void (*moments)(const Number* input, ChannelLayout, ChannelRange, double* mean, double* squares);
  /// output = input * scale + shift, in Number.
  void (*scale)(const Number* input, ChannelLayout, ChannelRange, const double* scale, const double* shift,
                Number* output);
  /// For each channel the sums of gradient * (input - mean) and of gradient.
  void (*sums)(const Number* gradient, const Number* input, ChannelLayout, ChannelRange, const double* mean,
               double* with_input, double* alone);
  /// output = factor * (gradient - mean_gradient - slope * (input - mean)), in Number.
  void (*gradient)(const Number* gradient, const Number* input, ChannelLayout, ChannelRange, const double* mean,
                   const double* factor, const double* mean_gradient, const double* slope, Number* output);
};

/// All loops compiled for one instruction set.
struct BatchNormTable {
  BatchNormLoops<float> of_float;
  BatchNormLoops<double> of_double;
};

}  // namespace lockstep::kernels
