#include <lockstep/base/error.h>
#include <lockstep/plan/search/alternatives.h>

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

/// The Megatron layout on a mesh whose last axis is for the model.
Candidate megatron_on(const Task& task, OnMesh& mesh) {
  std::vector<AxisUse> uses(mesh.space.mesh_sizes.size(), AxisUse::data);
  uses.back() = AxisUse::model;
  return laid_out_as(task, mesh, uses, "megatron");
}

Candidate megatron(const Task& task, Meshes& meshes, const std::vector<int>& mesh) {
  auto best = megatron_on(task, mesh_of(meshes, task, mesh));
  if (task.options.mesh) return best;
  for (const auto& sizes : mesh_shapes(task.cluster.devices(), 2)) {
    auto tried = megatron_on(task, mesh_of(meshes, task, sizes));
    if (is_better(tried, best)) best = std::move(tried);
  }
  return best;
}

Candidate alternative_called(const std::string& name, const Task& task, Meshes& meshes) {
  if (std::find(kAlternatives.begin(), kAlternatives.end(), name) == kAlternatives.end()) {
    fail(ErrorKind::invalid_argument, "plan", "there is no alternative \"{}\"; known are {}", name,
         fmt::join(kAlternatives, ", "));
  }
  const auto mesh = task.options.mesh.value_or(std::vector<int>{task.cluster.devices()});
  if (name == "megatron") return megatron(task, meshes, mesh);
  const std::vector<AxisUse> uses(mesh.size(), name == "zero3" ? AxisUse::zero : AxisUse::data);
  return laid_out_as(task, mesh_of(meshes, task, mesh), uses, name);
}

}  // namespace

std::vector<Candidate> named_alternatives(const Task& task, Meshes& meshes) {
  std::vector<std::string> names = task.options.compare;
  const auto need = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.insert(names.begin(), name);
  };
  if (task.options.choose != kBest) need(task.options.choose);
  need("data_parallel");
  std::vector<Candidate> named;
  for (const auto& name : names) named.push_back(alternative_called(name, task, meshes));
  return named;
}

}  // namespace lockstep::plan
