// The reduction kernels against arithmetic done one element at a time, for every dtype, operation and instruction set.
#include <lockstep/comm/reduction/kernels.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "comm/shm/thread_ranks.h"

namespace lockstep::reduction::test {
namespace {

using shm::test::item_bytes;

constexpr std::array kOps = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product};

using Bytes = std::vector<std::byte>;

// Runs one kernel on copies of `inputs`; the first `targets` sources are overwritten, as in place.
std::vector<Bytes> reduce(ReduceKernel kernel, std::vector<Bytes> inputs, int targets, std::size_t count) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (auto& input : inputs) from.push_back(input.data());
  for (int t = 0; t < targets; ++t) to.push_back(inputs[static_cast<std::size_t>(t)].data());
  kernel(from.data(), static_cast<int>(inputs.size()), to.data(), targets, count);
  inputs.resize(static_cast<std::size_t>(targets));
  return inputs;
}

template <typename T>
Bytes to_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> from_bytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <typename T>
std::vector<T> reduce_one(DType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs) {
  std::vector<Bytes> bytes;
  for (const auto& input : inputs) bytes.push_back(to_bytes(input));
  return from_bytes<T>(reduce(reduce_kernel(dtype, op), bytes, 1, inputs.front().size()).front());
}

// --- float16 and bfloat16 by the book --------------------------------------------------------------------------------

// The value of a binary16, from its definition.
double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double bfloat_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// The nearest of all 65,536 patterns, the even one on a tie; beyond the largest finite one counts as the next power.
template <typename Value>
std::uint16_t nearest(double x, const Value& value, std::uint16_t infinity) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(x);
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value(middle) <= magnitude ? low : high) = middle;
  }
  const auto before = static_cast<std::uint16_t>(infinity - 1);
  const double above =
      high == infinity ? 2 * value(before) - value(static_cast<std::uint16_t>(before - 1)) : value(high);
  const double down = magnitude - value(low);
  const double up = above - magnitude;
  const bool take_low = down < up || (down == up && low % 2 == 0);
  return static_cast<std::uint16_t>(sign | (take_low ? low : high));
}

TEST(Kernels, Float16IsReadAndRoundedExactly) {
  // max(x, x) reads every pattern and writes it back.
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const auto& set : kernel_sets()) {
    const auto kernel = set.table->at[static_cast<int>(DType::float16)][static_cast<int>(ReduceOp::max)];
    const auto same = from_bytes<std::uint16_t>(reduce(kernel, {to_bytes(all), to_bytes(all)}, 1, all.size()).front());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(half_value(all[i]))) {
        ASSERT_TRUE(std::isnan(half_value(same[i]))) << set.name << " " << i;
      } else {
        ASSERT_EQ(same[i], all[i]) << set.name;
      }
    }
  }
}

TEST(Kernels, NarrowFloatsAreAddedInFloat32AndRoundedOnce) {
  std::mt19937 random(1);
  std::vector<std::vector<std::uint16_t>> half(3, std::vector<std::uint16_t>(20000));
  auto bfloat = half;
  for (auto& one : half) {
    for (auto& bits : one) bits = static_cast<std::uint16_t>(random() % 0x7c00 | (random() & 0x8000));
  }
  for (auto& one : bfloat) {
    for (auto& bits : one) bits = static_cast<std::uint16_t>((0x3c00 + random() % 0x0800) | (random() & 0x8000));
  }
  const auto half_sum = reduce_one(DType::float16, ReduceOp::sum, half);
  const auto bfloat_sum = reduce_one(DType::bfloat16, ReduceOp::sum, bfloat);
  for (std::size_t i = 0; i < half_sum.size(); ++i) {
    const auto add = [&](const auto& inputs, const auto& value) {
      const float first = static_cast<float>(value(inputs[0][i])) + static_cast<float>(value(inputs[1][i]));
      return static_cast<double>(first + static_cast<float>(value(inputs[2][i])));
    };
    ASSERT_EQ(half_sum[i], nearest(add(half, half_value), half_value, 0x7c00)) << i;
    ASSERT_EQ(bfloat_sum[i], nearest(add(bfloat, bfloat_value), bfloat_value, 0x7f80)) << i;
  }
}

TEST(Kernels, Float16SumsOverflowToInfinityAndKeepSubnormals) {
  // 65504 is the largest; half way to the next power of two rounds to infinity. 2^-24 is the smallest.
  const std::vector<std::uint16_t> largest = {0x7bff, 0x7bff, 0x0001, 0x8001, 0x03ff, 0xfbff};
  const std::vector<std::uint16_t> added = {0x4c00, 0x4bff, 0x0001, 0x0001, 0x0001, 0xfbff};  // 16, 15.99, 2^-24 ...
  const std::vector<std::uint16_t> expected = {0x7c00, 0x7bff, 0x0002, 0x0000, 0x0400, 0xfc00};
  EXPECT_EQ(reduce_one<std::uint16_t>(DType::float16, ReduceOp::sum, {largest, added}), expected);
}

// --- the rest --------------------------------------------------------------------------------------------------------

TEST(Kernels, NaNWinsMinAndMaxWhereverItStands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto op : {ReduceOp::min, ReduceOp::max}) {
    for (std::size_t ranks = 2; ranks <= 4; ++ranks) {
      for (std::size_t where = 0; where < ranks; ++where) {
        std::vector<std::vector<float>> inputs(ranks, std::vector<float>(37, 1.0F));
        for (auto& x : inputs[where]) x = nan;
        for (const float x : reduce_one(DType::float32, op, inputs)) ASSERT_TRUE(std::isnan(x));
      }
    }
  }
}

TEST(Kernels, IntegersWrapAround) {
  const auto low = std::numeric_limits<std::int64_t>::min();
  const auto high = std::numeric_limits<std::int64_t>::max();
  using I64 = std::vector<std::int64_t>;
  EXPECT_EQ(reduce_one<std::int64_t>(DType::int64, ReduceOp::sum, {{high, low}, {1, -1}}), (I64{low, high}));
  EXPECT_EQ(reduce_one<std::int8_t>(DType::int8, ReduceOp::sum, {{127, -100}, {1, -100}}),
            (std::vector<std::int8_t>{-128, 56}));
  EXPECT_EQ(reduce_one<std::uint8_t>(DType::uint8, ReduceOp::product, {{16, 3}, {17, 5}}),
            (std::vector<std::uint8_t>{16, 15}));
}

TEST(Kernels, BoolIsAnyOrAll) {
  const std::vector<std::uint8_t> a = {0, 0, 1, 1};
  const std::vector<std::uint8_t> b = {0, 1, 0, 1};
  for (const auto op : {ReduceOp::sum, ReduceOp::max}) {
    EXPECT_EQ(reduce_one<std::uint8_t>(DType::boolean, op, {a, b, a}), (std::vector<std::uint8_t>{0, 1, 1, 1}));
  }
  for (const auto op : {ReduceOp::product, ReduceOp::min}) {
    EXPECT_EQ(reduce_one<std::uint8_t>(DType::boolean, op, {a, b, a}), (std::vector<std::uint8_t>{0, 0, 0, 1}));
  }
}

// The tree over inputs[first], ..., written as its definition in comm/reduction/kernels.h reads.
float tree_sum(const std::vector<std::vector<float>>& inputs, std::size_t first, std::size_t count, std::size_t i) {
  if (count == 1) return inputs[first][i];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return tree_sum(inputs, first, left, i) + tree_sum(inputs, first + left, count - left, i);
}

TEST(Kernels, MeanIsTheSumInTreeOrderDividedByTheNumberOfRanks) {
  std::mt19937 random(3);
  for (std::size_t ranks = 1; ranks <= 37; ++ranks) {
    std::vector<std::vector<float>> inputs(ranks, std::vector<float>(3000));
    for (auto& input : inputs) {
      for (auto& x : input) x = std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 200) - 160);
    }
    const auto mean = reduce_one(DType::float32, ReduceOp::mean, inputs);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float sum = tree_sum(inputs, 0, ranks, i);
      ASSERT_EQ(mean[i], sum / static_cast<float>(ranks)) << ranks << " ranks, " << sum;
    }
  }
}

TEST(Kernels, WhatHasNoMeaningHasNoKernel) {
  EXPECT_EQ(reduce_kernel(DType::int32, ReduceOp::mean), nullptr);
  EXPECT_EQ(reduce_kernel(DType::boolean, ReduceOp::mean), nullptr);
  EXPECT_EQ(reduce_kernel(DType::other, ReduceOp::sum), nullptr);
}

// Random bits without NaN, whose payload the instruction sets need not agree on.
Bytes random_input(DType dtype, std::size_t count, std::mt19937& random) {
  Bytes bytes(count * item_bytes(dtype));
  std::uniform_real_distribution<double> uniform(-2.0, 2.0);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + i * item_bytes(dtype);
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof(value)); };
    switch (dtype) {
      case DType::float32: put(static_cast<float>(uniform(random))); break;
      case DType::float64: put(uniform(random)); break;
      case DType::bfloat16:
      case DType::float16: put(static_cast<std::uint16_t>(0x3000 + random() % 0x1000)); break;
      case DType::boolean: put(static_cast<std::uint8_t>(random() % 2)); break;
      default:
        for (std::size_t k = 0; k < item_bytes(dtype); ++k) at[k] = static_cast<std::byte>(random());
    }
  }
  return bytes;
}

// Up to four sources take another path than more; lengths are around vectors and blocks; a cut must not show.
TEST(Kernels, AllInstructionSetsAndCutsGiveTheSameBits) {
  std::mt19937 random(2);
  const KernelTable& reference = *kernel_sets().front().table;
  for (int d = 0; d < KernelTable::kDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const auto op : kOps) {
      const auto kernel = reference.at[d][static_cast<int>(op)];
      if (kernel == nullptr) continue;
      for (const std::size_t ranks : {1UL, 2UL, 3UL, 4UL, 5UL, 13UL}) {
        for (const std::size_t count : {1UL, 7UL, 33UL, 1023UL, 1024UL, 1025UL, 2500UL}) {
          std::vector<Bytes> inputs;
          for (std::size_t r = 0; r < ranks; ++r) inputs.push_back(random_input(dtype, count, random));
          const auto whole = reduce(kernel, inputs, static_cast<int>(ranks), count);
          for (const Bytes& target : whole) ASSERT_EQ(target, whole.front());
          for (const auto& set : kernel_sets()) {
            const auto other = set.table->at[d][static_cast<int>(op)];
            for (const int targets : {1, 2}) {
              if (targets > static_cast<int>(ranks)) continue;
              ASSERT_EQ(reduce(other, inputs, targets, count).back(), whole.front())
                  << set.name << " " << name(dtype) << " op " << static_cast<int>(op) << " of " << count;
            }
          }
          const std::size_t cut = count / 3 * item_bytes(dtype);
          std::vector<Bytes> tails;
          for (const Bytes& input : inputs)
            tails.emplace_back(input.begin() + static_cast<std::ptrdiff_t>(cut), input.end());
          const auto tail = reduce(kernel, tails, 1, count - count / 3).front();
          ASSERT_TRUE(std::equal(tail.begin(), tail.end(), whole.front().begin() + static_cast<std::ptrdiff_t>(cut)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::reduction::test
