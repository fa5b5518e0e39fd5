// Tensors that tests save, the same on every rank and in every process.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/state/checkpoint.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

namespace lockstep::test {

/// Of several dtypes, sizes that do not divide, one smaller than any mesh, one without dimensions, an empty one.
inline state::NamedTensors whole_tensors(int seed = 1) {
  const auto numbers = [&](at::IntArrayRef sizes) {
    auto count = c10::multiply_integers(sizes);
    return (torch::arange(count, torch::kFloat) * 1.1 + seed).sin().reshape(sizes);
  };
  return {{"conv.weight", numbers({7, 5, 3})},
          {"fc.weight", numbers({13, 6})},
          {"fc.bias", numbers({13}).to(torch::kBFloat16)},
          {"ids", torch::arange(11, torch::kLong) * seed},
          {"mask", torch::arange(9, torch::kLong).remainder(2).to(torch::kBool)},
          {"small", numbers({2}).to(torch::kDouble)},
          {"step", torch::scalar_tensor(40 + seed, torch::kLong)},
          {"empty", torch::zeros({0, 4})}};
}

using PlacementsByName = std::map<std::string, Placements>;

/// The tensors on a mesh; those without placements stay ordinary.
inline state::NamedTensors distributed(const state::NamedTensors& whole, const Mesh& mesh,
                                       const PlacementsByName& placements) {
  state::NamedTensors out;
  for (const auto& [name, tensor] : whole) {
    const auto found = placements.find(name);
    out.emplace(name, found == placements.end() ? tensor.clone() : distribute(tensor, mesh, found->second));
  }
  return out;
}

/// The same without the values.
inline state::NamedTensors without_values(const state::NamedTensors& tensors) {
  state::NamedTensors out;
  for (const auto& [name, tensor] : tensors) {
    out.emplace(name, tensor.clone());
    out.at(name).zero_();
  }
  return out;
}

inline void expect_same(const state::NamedTensors& got, const state::NamedTensors& whole) {
  EXPECT_EQ(got.size(), whole.size());
  for (const auto& [name, tensor] : got) {
    const auto values = is_global(tensor) ? full(tensor) : tensor;
    EXPECT_TRUE(torch::equal(values, whole.at(name))) << name;
    EXPECT_EQ(values.scalar_type(), whole.at(name).scalar_type()) << name;
  }
}

inline const PlacementsByName& on_two_axes() {
  static const PlacementsByName placements{{"conv.weight", {Shard(0), Shard(1)}}, {"fc.weight", {Shard(0), Shard(0)}},
                                           {"fc.bias", {Replicate(), Shard(0)}},  {"ids", {Shard(0), Replicate()}},
                                           {"mask", {Shard(0), Shard(0)}},        {"small", {Shard(0), Shard(0)}},
                                           {"empty", {Shard(1), Replicate()}}};
  return placements;
}

inline const PlacementsByName& on_one_axis() {
  static const PlacementsByName placements{
      {"conv.weight", {Shard(2)}}, {"fc.weight", {Shard(1)}}, {"fc.bias", {Shard(0)}}, {"ids", {Replicate()}},
      {"mask", {Shard(0)}},        {"step", {Replicate()}},   {"empty", {Shard(0)}}};
  return placements;
}

}  // namespace lockstep::test
