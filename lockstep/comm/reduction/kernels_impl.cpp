// The reduction loops, written once and compiled once for each instruction set (lockstep_instruction_sets): plain loops
// that the compiler turns into vector code.
//
// This file must define nothing with external linkage except its table: an inline function compiled here for AVX-512
// could otherwise be the copy that the linker keeps for the whole program. So it uses no library code at all. Multiply
// and add must not be contracted into one instruction here (-ffp-contract=off), or the sets would round differently.
#include <lockstep/comm/reduction/kernel_table.h>

#include <cstdint>

#ifndef LOCKSTEP_TABLE
#error "LOCKSTEP_TABLE names the table to define, e.g. avx2_kernels"
#endif

namespace lockstep::reduction {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

struct BFloat16 {
  u16 bits;
};
struct Float16 {
  u16 bits;
};
struct Bool {
  u8 value;
};

// --- conversions to and from the type that accumulates -------------------------------------------------------------

template <typename T>
struct Widen {
  using Acc = T;
  static Acc load(T value) { return value; }
  static T store(Acc value) { return value; }
};

template <>
struct Widen<BFloat16> {
  using Acc = float;
  static float load(BFloat16 value) { return __builtin_bit_cast(float, static_cast<u32>(value.bits) << 16); }
  static BFloat16 store(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return {static_cast<u16>(value == value ? rounded : 0x7fc0U)};
  }
};

// IEEE 754 binary16 has 5 bits of exponent (bias 15) and 10 of mantissa; binary32 has 8 (bias 127) and 23.
template <>
struct Widen<Float16> {
  using Acc = float;
  static float load(Float16 value) {
    constexpr u32 kRebias = (127U - 15U) << 23;
    constexpr u32 kSmallestNormal = (127U - 14U) << 23;  // 2^-14
    const u32 magnitude = (value.bits & 0x7fffU) << 13;
    const u32 exponent = magnitude & (0x1fU << 23);
    const u32 normal = magnitude + kRebias;
    const u32 special = normal + kRebias;  // infinity and NaN
    // A subnormal is m * 2^-24: put m into the mantissa of 2^-14 and take 2^-14 away again, which is exact.
    const float subnormal =
        __builtin_bit_cast(float, magnitude + kSmallestNormal) - __builtin_bit_cast(float, kSmallestNormal);
    const u32 finite = exponent == 0 ? __builtin_bit_cast(u32, subnormal) : normal;
    const u32 bits = exponent == (0x1fU << 23) ? special : finite;
    return __builtin_bit_cast(float, bits | (static_cast<u32>(value.bits & 0x8000U) << 16));
  }
  static Float16 store(float value) {
    constexpr u32 kInfinity = 0x7f800000U;
    constexpr u32 kTooLarge = (127U + 16U) << 23;        // 2^16
    constexpr u32 kSmallestNormal = (127U - 14U) << 23;  // 2^-14
    constexpr u32 kAlign = (127U - 1U) << 23;            // 0.5: its last mantissa bit is worth 2^-24
    const u32 all = __builtin_bit_cast(u32, value);
    const u32 magnitude = all & 0x7fffffffU;
    // Adding 0.5 makes the hardware round to a multiple of 2^-24, the step of subnormals.
    const float aligned = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, kAlign);
    const u32 subnormal = __builtin_bit_cast(u32, aligned) - kAlign;
    const u32 normal = (magnitude - ((127U - 15U) << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const u32 special = magnitude > kInfinity ? 0x7e00U : 0x7c00U;
    const u32 finite = magnitude < kSmallestNormal ? subnormal : normal;
    const u32 bits = magnitude >= kTooLarge ? special : finite;
    return {static_cast<u16>(bits | ((all >> 16) & 0x8000U))};
  }
};

// --- the operations --------------------------------------------------------------------------------------------------

// Signed integers wrap around, as unsigned ones do by definition.
template <typename T>
struct Unsigned {
  using Type = T;
};
template <>
struct Unsigned<std::int8_t> {
  using Type = u32;  // not uint8_t: arithmetic would be done in int anyway
};
template <>
struct Unsigned<u8> {
  using Type = u32;
};
template <>
struct Unsigned<std::int16_t> {
  using Type = u32;
};
template <>
struct Unsigned<std::int32_t> {
  using Type = u32;
};
template <>
struct Unsigned<std::int64_t> {
  using Type = std::uint64_t;
};

struct AsItIs {
  template <typename A>
  static A finish(A value, int) {
    return value;
  }
};

struct Sum : AsItIs {
  template <typename A>
  static A combine(A a, A b) {
    using U = typename Unsigned<A>::Type;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value | b.value)}; }
};

struct Mean : Sum {
  template <typename A>
  static A finish(A value, int n) {
    return value / static_cast<A>(n);
  }
};

// The same bits without a division, which is slow on the processor.
struct MeanOfPowerOfTwo : Sum {
  template <typename A>
  static A finish(A value, int n) {
    return value * (static_cast<A>(1) / static_cast<A>(n));
  }
};

struct Product : AsItIs {
  template <typename A>
  static A combine(A a, A b) {
    using U = typename Unsigned<A>::Type;
    return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value & b.value)}; }
};

template <typename A>
struct BitsOf {
  using Type = u32;
};
template <>
struct BitsOf<double> {
  using Type = std::uint64_t;
};

#if defined(__x86_64__) && !defined(__AVX2__)
constexpr std::size_t kWidestMask = 4;  // SSE2 has no comparison of 64-bit integers
#else
constexpr std::size_t kWidestMask = 8;
#endif

// `take` ? a : b. For floating-point numbers in their bits: the compiler finds vector code for that wherever it stands,
// which it does not for two choices in a row.
template <typename A>
[[gnu::always_inline]] inline A choose(bool take, A a, A b) {
  if constexpr (static_cast<A>(0.5) == 0 || sizeof(A) > kWidestMask) {
    return take ? a : b;
  } else {
    using U = typename BitsOf<A>::Type;
    const U mask = static_cast<U>(0) - static_cast<U>(take);
    return __builtin_bit_cast(A, (__builtin_bit_cast(U, a) & mask) | (__builtin_bit_cast(U, b) & ~mask));
  }
}

struct Min : AsItIs {
  template <typename A>
  static A combine(A a, A b) {
    return choose((a < b) | (a != a), a, b);  // NOLINT(misc-redundant-expression): NaN
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value & b.value)}; }
};

struct Max : AsItIs {
  template <typename A>
  static A combine(A a, A b) {
    return choose((a > b) | (a != a), a, b);  // NOLINT(misc-redundant-expression): NaN
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value | b.value)}; }
};

// --- the loops -------------------------------------------------------------------------------------------------------

// Elements per iteration: the accumulators and a piece of every buffer stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

// Sources that one pass over a block combines in registers.
constexpr int kMost = 4;

template <typename T>
const T* source_at(const std::byte* const* sources, int s, std::size_t first) {
  return reinterpret_cast<const T*>(sources[s]) + first;
}

template <typename T>
T* target_at(std::byte* const* targets, int t, std::size_t first) {
  return reinterpret_cast<T*>(targets[t]) + first;
}

// The tree over N values from kFirst on, which are all loaded already: a load that only one result of a comparison
// needs would keep the compiler from vector code.
template <int N, typename Op, int kFirst = 0, typename Acc>
[[gnu::always_inline]] inline Acc tree_over(const Acc (&values)[kMost]) {
  if constexpr (N == 1) {
    return values[kFirst];
  } else {
    constexpr int kLeft = left_of(N);
    return Op::combine(tree_over<kLeft, Op, kFirst>(values), tree_over<N - kLeft, Op, kFirst + kLeft>(values));
  }
}

// Element i of the tree over N sources.
template <int N, typename T, typename Op>
[[gnu::always_inline]] inline typename Widen<T>::Acc tree_of(const T* const (&from)[kMost], std::size_t i) {
  typename Widen<T>::Acc values[kMost];
  for (int s = 0; s < N; ++s) values[s] = Widen<T>::load(from[s][i]);
  return tree_over<N, Op>(values);
}

template <int N, typename T>
void pointers_of(const std::byte* const* sources, std::size_t first, const T* (&from)[kMost]) {
  for (int s = 0; s < N; ++s) from[s] = source_at<T>(sources, s, first);
  for (int s = N; s < kMost; ++s) from[s] = nullptr;
}

// A few sources, without an accumulator in memory: the most frequent case. `ivdep`: buffers are equal or do not
// overlap.
template <int N, typename T, typename Op>
void few_to_one(const T* const (&from)[kMost], T* to, std::size_t first, std::size_t end) {
  using W = Widen<T>;
#pragma GCC ivdep
  for (std::size_t i = first; i < end; ++i) to[i] = W::store(Op::finish(tree_of<N, T, Op>(from, i), N));
}

template <int N, typename T, typename Op>
void few_to_two(const T* const (&from)[kMost], T* to, T* second, std::size_t count) {
  using W = Widen<T>;
  if constexpr (sizeof(T) < sizeof(typename W::Acc)) {
    // The compiler cannot vectorize two stores of a narrow float.
    for (std::size_t first = 0; first < count; first += kBlock) {
      const std::size_t end = count - first < kBlock ? count : first + kBlock;
      few_to_one<N, T, Op>(from, to, first, end);
      __builtin_memmove(second + first, to + first, (end - first) * sizeof(T));
    }
    return;
  }
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const T value = W::store(Op::finish(tree_of<N, T, Op>(from, i), N));
    to[i] = value;
    second[i] = value;
  }
}

template <int N, typename T, typename Op>
void reduce_few(const std::byte* const* sources, std::byte* const* targets, int n_targets, std::size_t count) {
  const T* from[kMost];
  pointers_of<N>(sources, 0, from);
  if (n_targets == 1) return few_to_one<N, T, Op>(from, target_at<T>(targets, 0, 0), 0, count);
  few_to_two<N, T, Op>(from, target_at<T>(targets, 0, 0), target_at<T>(targets, 1, 0), count);
}

// acc = the tree over N sources, or acc combined with this tree.
template <int N, bool kOnto, typename T, typename Op, typename Acc>
void few_into(const std::byte* const* sources, Acc* acc, std::size_t first, std::size_t count) {
  const T* from[kMost];
  pointers_of<N>(sources, first, from);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const Acc value = tree_of<N, T, Op>(from, i);
    acc[i] = kOnto ? Op::combine(acc[i], value) : value;
  }
}

template <bool kOnto, typename T, typename Op, typename Acc>
void few_into(const std::byte* const* sources, int n, Acc* acc, std::size_t first, std::size_t count) {
  if (n == 1) return few_into<1, kOnto, T, Op>(sources, acc, first, count);
  if (n == 2) return few_into<2, kOnto, T, Op>(sources, acc, first, count);
  if (n == 3) return few_into<3, kOnto, T, Op>(sources, acc, first, count);
  few_into<4, kOnto, T, Op>(sources, acc, first, count);
}

template <typename Op, typename Acc>
void combine_blocks(Acc* acc, const Acc* other, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) acc[i] = Op::combine(acc[i], other[i]);
}

// acc = the tree over n sources. Recursion depth is log2(n).
template <typename T, typename Op, typename Acc>
void tree_into(const std::byte* const* sources, int n, Acc* acc, std::size_t first, std::size_t count) {
  if (n <= kMost) return few_into<false, T, Op>(sources, n, acc, first, count);
  const int left = left_of(n);
  tree_into<T, Op>(sources, left, acc, first, count);
  if (n - left <= kMost) return few_into<true, T, Op>(sources + left, n - left, acc, first, count);
  alignas(64) Acc right[kBlock];
  tree_into<T, Op>(sources + left, n - left, right, first, count);
  combine_blocks<Op>(acc, right, count);
}

template <typename T, typename Op, typename Acc>
void store_result(const Acc* acc, T* target, std::size_t count, int n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = Widen<T>::store(Op::finish(acc[i], n));
}

template <typename T, typename Op>
void reduce(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
            std::size_t count) {
  if (n_targets <= 2) {
    if (n_sources == 2) return reduce_few<2, T, Op>(sources, targets, n_targets, count);
    if (n_sources == 3) return reduce_few<3, T, Op>(sources, targets, n_targets, count);
    if (n_sources == 4) return reduce_few<4, T, Op>(sources, targets, n_targets, count);
  }
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t left = count - first;
    const std::size_t block = left < kBlock ? left : kBlock;
    alignas(64) typename Widen<T>::Acc acc[kBlock];
    tree_into<T, Op>(sources, n_sources, acc, first, block);
    for (int t = 0; t < n_targets; ++t) store_result<T, Op>(acc, target_at<T>(targets, t, first), block, n_sources);
  }
}

template <typename T>
void reduce_mean(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
                 std::size_t count) {
  const bool power_of_two = (n_sources & (n_sources - 1)) == 0;
  (power_of_two ? reduce<T, MeanOfPowerOfTwo> : reduce<T, Mean>)(sources, n_sources, targets, n_targets, count);
}

// Columns are ordered by ReduceOp. Only floating-point numbers have a mean.
template <typename T, bool kHasMean = false>
constexpr void fill_row(ReduceKernel (&row)[KernelTable::kOps]) {
  row[0] = reduce<T, Sum>;
  if constexpr (kHasMean) row[1] = reduce_mean<T>;
  row[2] = reduce<T, Min>;
  row[3] = reduce<T, Max>;
  row[4] = reduce<T, Product>;
}

// Rows are ordered by DType.
constexpr KernelTable make_table() {
  KernelTable table{};
  fill_row<float, true>(table.at[0]);
  fill_row<double, true>(table.at[1]);
  fill_row<BFloat16, true>(table.at[2]);
  fill_row<Float16, true>(table.at[3]);
  fill_row<std::int8_t>(table.at[4]);
  fill_row<std::uint8_t>(table.at[5]);
  fill_row<std::int16_t>(table.at[6]);
  fill_row<std::int32_t>(table.at[7]);
  fill_row<std::int64_t>(table.at[8]);
  fill_row<Bool>(table.at[9]);
  return table;
}

}  // namespace

extern const KernelTable LOCKSTEP_TABLE;
const KernelTable LOCKSTEP_TABLE = make_table();

}  // namespace lockstep::reduction
