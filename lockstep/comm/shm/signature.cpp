#include <lockstep/comm/shm/signature.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <type_traits>

namespace lockstep::shm {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::barrier: return "barrier";
    case Kind::exchange: return "exchange";
    case Kind::allocate: return "allocate";
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce: return "reduce";
    case Kind::broadcast: return "broadcast";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::all_to_all: return "all_to_all";
    case Kind::gather: return "gather";
    case Kind::scatter: return "scatter";
  }
  return "?";
}

namespace {

// The library's own name(ReduceOp) lives with the tensors, which this core does without.
std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "mean", "min", "max", "product"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "?";
}

}  // namespace

void Signature::set_sizes(std::span<const std::int64_t> all) {
  dims = static_cast<std::uint8_t>(std::min<std::size_t>(all.size(), kMaxDims));
  for (std::size_t i = 0; i < dims; ++i) sizes[i] = all[i];
  for (std::size_t i = kMaxDims; i < all.size(); ++i) sizes[kMaxDims - 1] *= all[i];
}

std::uint64_t hash(const Signature& signature) {
  static_assert(std::has_unique_object_representations_v<Signature>, "holes would be compared too");
  static_assert(sizeof(Signature) % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, sizeof(Signature) / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &signature, sizeof(Signature));
  // Multiplication by an odd constant and the shift are one-to-one, so a change in one word always shows.
  std::uint64_t h = 0;
  for (const auto word : words) {
    h = (h ^ word) * 0x9e3779b97f4a7c15U;
    h ^= h >> 32;
  }
  return h;
}

std::string describe(const Signature& signature) {
  const auto kind = signature.kind;
  if (kind == Kind::barrier) return "barrier()";
  const std::span<const std::int64_t> sizes(signature.sizes.data(), signature.dims);
  std::string text = fmt::format("{}({} [{}]", name(kind), name(signature.dtype), fmt::join(sizes, ", "));
  if (kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter) {
    text += fmt::format(", {}", name_of(static_cast<ReduceOp>(signature.op)));
  }
  if (signature.root >= 0) text += fmt::format(", root {}", signature.root);
  return text + ")";
}

}  // namespace lockstep::shm
