#include <lockstep/plan/search/candidate.h>

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

OnMesh& mesh_of(Meshes& meshes, const Task& task, const std::vector<int>& sizes) {
  for (auto& each : meshes) {
    if (each.space.mesh_sizes == sizes) return each;
  }
  return meshes.emplace_back(task.folded.program, task.cluster, sizes, Constraints{});
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

}  // namespace lockstep::plan
