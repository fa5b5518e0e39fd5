// The reduction loops, written once and compiled once for each instruction set (lockstep_instruction_sets): plain loops
// that the compiler turns into vector code.
//
// This file must define nothing with external linkage but its one table: an inline function compiled here for AVX-512
// could otherwise be the copy the linker keeps for everybody. So it uses no library code at all. No multiply and add
// may be contracted into one here (-ffp-contract=off), or the sets would round differently.
#include <lockstep/comm/shm/kernel_table.h>

#include <cstdint>

#ifndef LOCKSTEP_TABLE
#error "LOCKSTEP_TABLE names the table to define, e.g. avx2_kernels"
#endif

namespace lockstep::shm {
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

struct Sum {
  template <typename A>
  static A combine(A a, A b) {
    using U = typename Unsigned<A>::Type;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value | b.value)}; }
  template <typename A>
  static A finish(A value, int) {
    return value;
  }
};

struct Mean : Sum {
  template <typename A>
  static A finish(A value, int n) {
    return value / static_cast<A>(n);
  }
};

// The same bits without a division, which the processor takes long for.
struct MeanOfPowerOfTwo : Sum {
  template <typename A>
  static A finish(A value, int n) {
    return value * (static_cast<A>(1) / static_cast<A>(n));
  }
};

struct Product {
  template <typename A>
  static A combine(A a, A b) {
    using U = typename Unsigned<A>::Type;
    return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value & b.value)}; }
  template <typename A>
  static A finish(A value, int) {
    return value;
  }
};

struct Min {
  template <typename A>
  static A combine(A a, A b) {
    return (a < b) | (a != a) ? a : b;  // NOLINT(misc-redundant-expression): NaN
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value & b.value)}; }
  template <typename A>
  static A finish(A value, int) {
    return value;
  }
};

struct Max {
  template <typename A>
  static A combine(A a, A b) {
    return (a > b) | (a != a) ? a : b;  // NOLINT(misc-redundant-expression): NaN
  }
  static Bool combine(Bool a, Bool b) { return {static_cast<u8>(a.value | b.value)}; }
  template <typename A>
  static A finish(A value, int) {
    return value;
  }
};

// --- the loops -------------------------------------------------------------------------------------------------------

// Elements of one round: the accumulator and a piece of every buffer stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

// Two sources, no accumulator in memory: the case of two ranks, and the hot one. `ivdep`: buffers are equal or apart.
template <typename T, typename Op>
void reduce_two(const T* a, const T* b, T* target, std::size_t count) {
  using W = Widen<T>;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    target[i] = W::store(Op::finish(Op::combine(W::load(a[i]), W::load(b[i])), 2));
  }
}

template <typename T, typename Op>
void reduce_two(const T* a, const T* b, T* first, T* second, std::size_t count) {
  using W = Widen<T>;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const T value = W::store(Op::finish(Op::combine(W::load(a[i]), W::load(b[i])), 2));
    first[i] = value;
    second[i] = value;
  }
}

template <typename T, typename Op, typename Acc>
void add_source(Acc* acc, const T* source, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) acc[i] = Op::combine(acc[i], Widen<T>::load(source[i]));
}

template <typename T, typename Op, typename Acc>
void store_result(const Acc* acc, T* target, std::size_t count, int n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = Widen<T>::store(Op::finish(acc[i], n));
}

template <typename T>
const T* source_at(const std::byte* const* sources, int s, std::size_t first) {
  return reinterpret_cast<const T*>(sources[s]) + first;
}

template <typename T>
T* target_at(std::byte* const* targets, int t, std::size_t first) {
  return reinterpret_cast<T*>(targets[t]) + first;
}

template <typename T, typename Op>
void reduce_block(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
                  std::size_t first, std::size_t count) {
  using Acc = typename Widen<T>::Acc;
  alignas(64) Acc acc[kBlock];
  const T* const start = source_at<T>(sources, 0, first);
  for (std::size_t i = 0; i < count; ++i) acc[i] = Widen<T>::load(start[i]);
  for (int s = 1; s < n_sources; ++s) add_source<T, Op>(acc, source_at<T>(sources, s, first), count);
  for (int t = 0; t < n_targets; ++t) store_result<T, Op>(acc, target_at<T>(targets, t, first), count, n_sources);
}

template <typename T, typename Op>
void reduce(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
            std::size_t count) {
  if (n_sources == 2 && n_targets <= 2) {
    const T* const a = source_at<T>(sources, 0, 0);
    const T* const b = source_at<T>(sources, 1, 0);
    if (n_targets == 1) return reduce_two<T, Op>(a, b, target_at<T>(targets, 0, 0), count);
    return reduce_two<T, Op>(a, b, target_at<T>(targets, 0, 0), target_at<T>(targets, 1, 0), count);
  }
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t left = count - first;
    reduce_block<T, Op>(sources, n_sources, targets, n_targets, first, left < kBlock ? left : kBlock);
  }
}

template <typename T>
void reduce_mean(const std::byte* const* sources, int n_sources, std::byte* const* targets, int n_targets,
                 std::size_t count) {
  const bool power_of_two = (n_sources & (n_sources - 1)) == 0;
  (power_of_two ? reduce<T, MeanOfPowerOfTwo> : reduce<T, Mean>)(sources, n_sources, targets, n_targets, count);
}

template <typename T>
constexpr bool kHasMean = false;
template <>
constexpr bool kHasMean<float> = true;
template <>
constexpr bool kHasMean<double> = true;
template <>
constexpr bool kHasMean<BFloat16> = true;
template <>
constexpr bool kHasMean<Float16> = true;

// Columns by ReduceOp.
template <typename T>
constexpr void fill_row(ReduceKernel (&row)[KernelTable::kOps]) {
  row[0] = reduce<T, Sum>;
  if constexpr (kHasMean<T>) row[1] = reduce_mean<T>;
  row[2] = reduce<T, Min>;
  row[3] = reduce<T, Max>;
  row[4] = reduce<T, Product>;
}

// Rows by DType.
constexpr KernelTable make_table() {
  KernelTable table{};
  fill_row<float>(table.at[0]);
  fill_row<double>(table.at[1]);
  fill_row<BFloat16>(table.at[2]);
  fill_row<Float16>(table.at[3]);
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

}  // namespace lockstep::shm
