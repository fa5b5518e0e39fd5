// Candidates for the plan: their layouts and predictions, the named alternatives, and the sharding of the batch.
#include <lockstep/base/error.h>
#include <lockstep/plan/search/candidates.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::plan {
namespace {

/// The candidate's assignment for the whole program, with the placement numbers of `decisions`.
Assignment on_whole(const Task& task, const Candidate& candidate, Decisions& decisions) {
  Assignment assignment(task.whole.values.size(), kReplicated);
  const auto copy = [&](std::size_t to, std::size_t from) {
    assignment[to] = decisions.number(candidate.mesh->decisions.placements(candidate.assignment[from]));
  };
  for (std::size_t i = 0; i < task.whole.parameters.size(); ++i) {
    copy(task.whole.parameters[i], task.folded.decided_by[i]);
  }
  for (const auto input : task.whole.inputs) copy(input, input);
  return assignment;
}

}  // namespace

OnMesh::OnMesh(const Program& folded, const Cluster& cluster, std::vector<int> sizes, const Constraints& constraints)
    : decisions(folded, sizes, cost_model(cluster, sizes)), space(make_space(folded, sizes, constraints)) {
  for (const int ranks : sizes) along_model.push_back(megatron_axis(folded, ranks));
}

Constraints constraints_of(const SearchOptions& options, const std::vector<int>& sizes) {
  return options.constraints_on ? options.constraints_on(sizes).value_or(Constraints{}) : options.constraints;
}

OnMesh& mesh_of(Meshes& meshes, const Task& task, const std::vector<int>& sizes) {
  for (auto& each : meshes) {
    if (each.space.mesh_sizes == sizes) return each;
  }
  return meshes.emplace_back(task.folded.program, task.cluster, sizes,
                             task.options.constraints_on ? constraints_of(task.options, sizes) : Constraints{});
}

bool is_better(const Candidate& a, const Candidate& b) { return is_better(a.score, b.score); }

Candidate laid_out_as(const Task& task, OnMesh& mesh, std::span<const AxisUse> uses, std::string name) {
  auto assignment = laid_out(task.folded.program, mesh.space, mesh.decisions, uses, mesh.along_model);
  auto prediction = simulate(task.folded.program, mesh.decisions, assignment);
  const auto score = score_of(prediction, mesh.decisions.model());
  return {.name = std::move(name),
          .mesh = &mesh,
          .assignment = std::move(assignment),
          .prediction = std::move(prediction),
          .score = score};
}

Placements inputs_of(const Task& task, const Candidate& candidate) {
  Placements whole(candidate.mesh->space.mesh_sizes.size());
  for (const auto input : task.folded.program.inputs) {
    const auto& lies = candidate.mesh->decisions.placements(candidate.assignment[input]);
    if (lies != whole) return lies;
  }
  return whole;
}

void predict_whole(const Task& task, Candidate& candidate) {
  OnMesh& mesh = *candidate.mesh;
  if (!mesh.on_whole) mesh.on_whole.emplace(task.whole, mesh.space.mesh_sizes, mesh.decisions.model());
  if (candidate.folded_cost == Seconds{}) candidate.folded_cost = candidate.prediction.cost;
  candidate.prediction =
      simulate(task.whole, *mesh.on_whole, on_whole(task, candidate, *mesh.on_whole), Detail::modules);
  candidate.score = score_of(candidate.prediction, mesh.on_whole->model());
}

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
    if (task.options.constraints_on && !task.options.constraints_on(sizes)) continue;
    auto tried = megatron_on(task, mesh_of(meshes, task, sizes));
    if (is_better(tried, best)) best = std::move(tried);
  }
  return best;
}

/// All devices on one axis, unless the user's strategies need more.
std::vector<int> mesh_of_alternatives(const Task& task) {
  if (task.options.mesh) return *task.options.mesh;
  const bool any_mesh = !task.options.constraints_on;
  return any_mesh ? std::vector<int>{task.cluster.devices()} : shapes_of(task.cluster, task.options).front();
}

Candidate alternative_called(const std::string& name, const Task& task, Meshes& meshes) {
  if (std::find(kAlternatives.begin(), kAlternatives.end(), name) == kAlternatives.end()) {
    fail(ErrorKind::invalid_argument, "plan", "there is no alternative \"{}\"; known are {}", name,
         fmt::join(kAlternatives, ", "));
  }
  const auto mesh = mesh_of_alternatives(task);
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

namespace {

constexpr double kNextToNothing = 1e-3;

bool divides_more(const Placements& inputs, const Placements& now) {
  for (std::size_t axis = 0; axis < inputs.size(); ++axis) {
    if (now[axis].is_shard() && !inputs[axis].is_shard()) return false;
  }
  return inputs != now;
}

}  // namespace

void divide_batch(const Task& task, Candidate& best, Seconds at_most) {
  OnMesh& mesh = *best.mesh;
  const std::size_t axes = mesh.space.mesh_sizes.size();
  if (mesh.space.fixed_inputs) return;
  const auto now = inputs_of(task, best);
  for (std::size_t mask = (std::size_t{1} << axes) - 1; mask > 0; --mask) {
    const auto inputs = divided_along(mask, axes);
    if (!divides_more(inputs, now)) continue;
    Candidate tried = best;
    place_inputs(task.folded.program, mesh.space, inputs, mesh.decisions, tried.assignment);
    tried.folded_cost = simulate(task.folded.program, mesh.decisions, tried.assignment).cost;
    if (tried.folded_cost > (1 + kNextToNothing) * best.folded_cost) continue;
    predict_whole(task, tried);
    if (tried.score.memory_shortage > Bytes{}) continue;
    if (tried.score.cost > std::min(at_most, (1 + kNextToNothing) * best.score.cost)) continue;
    best = std::move(tried);
    return;
  }
}

}  // namespace lockstep::plan
