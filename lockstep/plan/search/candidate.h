// A layout that may become the plan, and the mesh it is on. Pure.
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

/// What is asked. All of it outlives the search.
struct Task {
  const Program& whole;
  const Folded& folded;  ///< what is searched; the whole decides at the end
  const Cluster& cluster;
  const SearchOptions& options;
};

/// One mesh with everything that was found out about it.
struct OnMesh {
  OnMesh(const Program& folded, const Cluster& cluster, std::vector<int> sizes, const Constraints& constraints);

  Decisions decisions;  ///< of the folded program
  Space space;
  std::vector<std::vector<Placement>> along_model;  ///< for each axis: megatron_axis()
  std::optional<Decisions> on_whole{};              ///< of the whole program, once that was asked for
};

/// References to its elements last.
using Meshes = std::deque<OnMesh>;

/// The one with these sizes, made without constraints if there is none.
OnMesh& mesh_of(Meshes& meshes, const Task& task, const std::vector<int>& sizes);

struct Candidate {
  std::string name;  ///< of a named alternative
  OnMesh* mesh = nullptr;
  Assignment assignment;  ///< of the folded program
  Prediction prediction;  ///< of the folded program, and after predict_whole() of the whole
  Score score;
  Seconds folded_cost{};  ///< of the folded program, when `prediction` is that of the whole
};
bool is_better(const Candidate& a, const Candidate& b);

/// Each axis used so.
Candidate laid_out_as(const Task& task, OnMesh& mesh, std::span<const AxisUse> uses, std::string name = {});

/// How the batch lies.
Placements inputs_of(const Task& task, const Candidate& candidate);

/// From here on its prediction is that of the whole program, module by module.
void predict_whole(const Task& task, Candidate& candidate);

}  // namespace lockstep::plan
