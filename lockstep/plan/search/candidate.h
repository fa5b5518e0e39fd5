// A candidate for the plan: a layout, and its mesh. Pure.
#pragma once

#include <lockstep/plan/search.h>
#include <lockstep/plan/search/improve.h>
#include <lockstep/plan/search/patterns.h>
#include <lockstep/plan/search/repeats.h>

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

/// The mesh with these sizes; created without constraints if it does not exist.
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

}  // namespace lockstep::plan
