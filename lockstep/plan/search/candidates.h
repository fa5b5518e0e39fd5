// Candidates for the plan: layouts on meshes, the named alternatives among them, and the plan that one becomes. Pure.
#pragma once

#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/plan/search/space.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::plan {

/// The input of the search. All referenced objects must outlive the search.
struct Task {
  const Program& whole;
  const Folded& folded;  ///< the folded program, on which the search works; the final decision uses the whole program
  const Cluster& cluster;
  const SearchOptions& options;
};

/// One mesh with the state of the search on it.
struct OnMesh {
  OnMesh(const Program& folded, const Cluster& cluster, std::vector<int> sizes, const Constraints& constraints);

  Decisions decisions;  ///< decisions of the folded program
  Space space;
  std::vector<std::vector<Placement>> along_model;  ///< for each axis: megatron_axis()
  std::optional<Decisions> on_whole{};              ///< decisions of the whole program, created on demand
};

/// A deque, so that references to its elements stay valid.
using Meshes = std::deque<OnMesh>;

/// The constraints on a mesh of these sizes.
Constraints constraints_of(const SearchOptions& options, const std::vector<int>& sizes);

/// The mesh with these sizes; created if it does not exist, with the constraints that hold on every mesh.
OnMesh& mesh_of(Meshes& meshes, const Task& task, const std::vector<int>& sizes);

struct Candidate {
  std::string name;  ///< name of an alternative
  OnMesh* mesh = nullptr;
  Assignment assignment;  ///< assignment of the folded program
  Prediction prediction;  ///< prediction of the folded program; after predict_whole(), of the whole program
  Score score;
  Seconds folded_cost{};  ///< cost of the folded program, when `prediction` is that of the whole program
};
bool is_better(const Candidate& a, const Candidate& b);

/// The candidate in which each axis of the mesh has the given use.
Candidate laid_out_as(const Task& task, OnMesh& mesh, std::span<const AxisUse> uses, std::string name = {});

/// The placements of the batch.
Placements inputs_of(const Task& task, const Candidate& candidate);

/// Replaces the candidate's prediction by that of the whole program, with costs for each module.
void predict_whole(const Task& task, Candidate& candidate);

/// The alternatives in options.compare; data_parallel is added in front if it is missing. They use options.mesh, or one
/// axis of all devices (megatron: the best mesh of up to two axes). Error(invalid_argument) for names that are not in
/// kAlternatives.
std::vector<Candidate> named_alternatives(const Task& task, Meshes& meshes);

/// Shards the batch if that hardly changes the time of a step, so that each rank reads only its part. The step takes no
/// longer than `at_most`, the time of the other candidates.
void divide_batch(const Task& task, Candidate& best, Seconds at_most);

/// The result of the exact search on a mesh; `mesh` is nullptr if its budget did not suffice.
struct Proven {
  const OnMesh* mesh = nullptr;
  Seconds lower_bound{};  ///< lower bound for the folded program
  bool found_best = false;
};

/// The plan of a candidate whose prediction is that of the whole program. Without alternatives and durations.
Plan written_plan(const Task& task, const Candidate& candidate, const Proven& proven);

Alternative as_alternative(const Candidate& candidate, std::string name);

}  // namespace lockstep::plan
