// The search for the best plan: meshes, candidates on them, local search and the exact search, in this order.
#include <lockstep/base/error.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/candidates.h>
#include <lockstep/plan/search/exact.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace lockstep::plan {
namespace {

constexpr std::size_t kMeshesToImprove = 3;
constexpr std::size_t kStartsOnEach = 2;
constexpr std::size_t kDecidedOnTheWhole = 3;

/// The uses of the axes, encoded as the digits of a number.
std::vector<AxisUse> uses_of(std::size_t number, std::size_t axes) {
  std::vector<AxisUse> uses;
  for (std::size_t axis = 0; axis < axes; ++axis, number /= kAxisUses) {
    uses.push_back(static_cast<AxisUse>(number % kAxisUses));
  }
  return uses;
}

/// Throws Error(unsupported), as no layout fits into memory. `smallest` is the candidate that comes nearest to fitting;
/// `enough` is a sufficient number of devices, if one was found.
[[noreturn]] void refuse(const Task& task, const Candidate& smallest, std::optional<int> enough) {
  const auto& memory = smallest.prediction.memory;
  fail(ErrorKind::unsupported, "plan",
       "{} for {} of \"{}\" fits: {} needs {} on each device, which has {}; {} are missing (parameters {}, gradients "
       "{}, optimizer {}, activations {}, communication {}). {}",
       task.options.choose == kBest ? std::string("no plan") : fmt::format("no layout \"{}\"", task.options.choose),
       shown_devices(task.cluster.devices()), task.cluster.name,
       task.options.choose == kBest ? "the smallest found" : "it", shown(memory.total()),
       shown(task.cluster.device.memory), shown(smallest.score.memory_shortage), shown(memory.parameters),
       shown(memory.gradients), shown(memory.optimizer_state), shown(memory.activations), shown(memory.communication),
       enough ? fmt::format("{} devices of this kind would suffice; or make the batch smaller", *enough)
              : fmt::format("Not even {} devices of this kind would suffice; make the batch or the model smaller",
                            kMostDevices));
}

void best_first(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return is_better(a, b); });
}

class Planner {
 public:
  explicit Planner(const Task& task) : task_(task), program_(task.folded.program), budget_(task.options.budget) {}

  Plan run() {
    const auto begun = std::chrono::steady_clock::now();
    for (auto& sizes : shapes_of(task_.cluster, task_.options)) {
      look_at(meshes_.emplace_back(program_, task_.cluster, sizes, constraints_of(task_.options, sizes)));
    }
    improve_best();
    prove();
    auto plan = decide(named_alternatives(task_, meshes_));
    plan.search_time = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()};
    return plan;
  }

  /// Whether some layout fits into memory; the fastest one is not searched.
  bool finds_one_that_fits() {
    if (task_.options.choose == kBest) {
      for (auto& sizes : shapes_of(task_.cluster, task_.options)) {
        look_at(meshes_.emplace_back(program_, task_.cluster, sizes, constraints_of(task_.options, sizes)));
      }
      improve_best();
    } else {
      for (auto& each : named_alternatives(task_, meshes_)) {
        if (each.name == task_.options.choose) found_.push_back(std::move(each));
      }
    }
    best_first(found_);
    found_.resize(std::min(found_.size(), kDecidedOnTheWhole));
    return std::any_of(found_.begin(), found_.end(), [&](Candidate& each) {
      predict_whole(task_, each);
      return each.score.memory_shortage == Bytes{};
    });
  }

 private:
  /// Doubles the number of devices until a layout fits.
  static std::optional<int> devices_that_fit(const Task& task) {
    constexpr std::size_t kBudget = 200'000;  // a layout that fits is found with far fewer trials than the best one
    auto options = task.options;
    options.mesh.reset();
    options.budget = kBudget;
    for (int devices = task.cluster.devices() * 2; devices <= kMostDevices; devices *= 2) {
      const auto larger = resized(task.cluster, devices);
      const Task again{.whole = task.whole, .folded = task.folded, .cluster = larger, .options = options};
      if (Planner(again).finds_one_that_fits()) return devices;
    }
    return std::nullopt;
  }

  /// Evaluates all combinations of uses of the axes.
  void look_at(OnMesh& mesh) {
    const std::size_t axes = mesh.space.mesh_sizes.size();
    std::size_t combinations = 1;
    for (std::size_t axis = 0; axis < axes; ++axis) combinations *= kAxisUses;
    std::vector<Candidate> here;
    for (std::size_t number = 0; number < combinations; ++number) {
      auto tried = laid_out_as(task_, mesh, uses_of(number, axes));
      const auto same = std::find_if(here.begin(), here.end(),
                                     [&](const Candidate& each) { return each.assignment == tried.assignment; });
      if (same == here.end()) here.push_back(std::move(tried));
    }
    best_first(here);
    // Local search may reduce the memory of the fastest candidate until it fits.
    const auto fastest = std::min_element(here.begin(), here.end(), [](const Candidate& a, const Candidate& b) {
      return a.prediction.cost < b.prediction.cost;
    });
    if (static_cast<std::size_t>(fastest - here.begin()) >= kStartsOnEach) found_.push_back(*fastest);
    for (std::size_t i = 0; i < std::min(here.size(), kStartsOnEach); ++i) found_.push_back(std::move(here[i]));
  }

  void add(OnMesh& mesh, Improved found) {
    const auto score = score_of(found.prediction, mesh.decisions.model());
    found_.push_back({.name = {},
                      .mesh = &mesh,
                      .assignment = std::move(found.assignment),
                      .prediction = std::move(found.prediction),
                      .score = score});
  }

  void improve_best() {
    best_first(found_);
    std::vector<const OnMesh*> chosen;
    const auto starts = found_;
    const auto layers = task_.folded.layers_left_out > 0 ? Layers::alike : Layers::each;
    for (const auto& start : starts) {
      const bool known = std::find(chosen.begin(), chosen.end(), start.mesh) != chosen.end();
      if (!known && chosen.size() == kMeshesToImprove) continue;
      if (!known) chosen.push_back(start.mesh);
      add(*start.mesh, improve(program_, start.mesh->space, start.mesh->decisions, start.assignment, layers, budget_));
    }
  }

  /// Runs the exact search on the mesh of the best candidate so far.
  void prove() {
    const auto best = std::min_element(found_.begin(), found_.end(),
                                       [](const Candidate& a, const Candidate& b) { return is_better(a, b); });
    OnMesh& mesh = *best->mesh;
    auto exact = search_exactly(program_, mesh.space, mesh.decisions,
                                {.assignment = best->assignment, .prediction = best->prediction}, task_.options.exact);
    if (!exact) return;
    proven_ = {.mesh = &mesh, .lower_bound = exact->lower_bound, .found_best = exact->proven};
    if (exact->best) add(mesh, std::move(*exact->best));
  }

  /// Selects the plan by predictions of the whole program, because the folded program is only an approximation.
  Plan decide(std::vector<Candidate> named) {
    best_first(found_);
    found_.resize(std::min(found_.size(), kDecidedOnTheWhole));
    auto& last = found_;
    for (auto& each : named) last.push_back(std::move(each));
    for (auto& each : last) predict_whole(task_, each);
    auto& best = *std::min_element(last.begin(), last.end(),
                                   [](const Candidate& a, const Candidate& b) { return is_better(a, b); });
    if (best.score.memory_shortage > Bytes{}) refuse(task_, best, devices_that_fit(task_));
    Seconds others{std::numeric_limits<double>::infinity()};
    for (const auto& each : last) {
      if (&each != &best && each.score.memory_shortage == Bytes{}) others = std::min(others, each.score.cost);
    }
    auto divided = best;
    divide_batch(task_, divided, std::max(others, best.score.cost));
    const auto& chosen = chosen_of(divided, last);
    auto plan = written_plan(task_, chosen, proven_);
    plan.alternatives.push_back(as_alternative(divided, std::string(kBest)));
    for (const auto& each : last) {
      if (!each.name.empty()) plan.alternatives.push_back(as_alternative(each, each.name));
    }
    return plan;
  }

  const Candidate& chosen_of(const Candidate& best, const std::vector<Candidate>& last) const {
    const auto called = [&](std::string_view name) {
      return std::find_if(last.begin(), last.end(), [&](const auto& each) { return each.name == name; });
    };
    const auto& name = task_.options.choose;
    if (name == kBest) {
      const auto& plain = *called("data_parallel");
      const bool pays = best.score.cost <= plain.score.cost * (1 - task_.options.worthwhile);
      return pays || plain.score.memory_shortage > Bytes{} ? best : plain;
    }
    const auto found = called(name);
    if (found->score.memory_shortage > Bytes{}) refuse(task_, *found, devices_that_fit(task_));
    return *found;
  }

  const Task task_;
  const Program& program_;
  std::size_t budget_;
  Meshes meshes_;
  std::vector<Candidate> found_;
  Proven proven_;
};

}  // namespace

std::vector<std::vector<int>> shapes_of(const Cluster& cluster, const SearchOptions& options) {
  const int devices = cluster.devices();
  if (options.mesh) {
    int ranks = 1;
    for (const int size : *options.mesh) ranks *= size;
    if (ranks != devices) {
      fail(ErrorKind::invalid_argument, "plan", "the mesh {} has {} ranks, but the cluster \"{}\" {} devices",
           fmt::join(*options.mesh, "x"), ranks, cluster.name, devices);
    }
    if (options.constraints_on && !options.constraints_on(*options.mesh)) {
      fail(ErrorKind::invalid_argument, "plan", "the mesh {} has no axes for the strategies given; change one of them",
           fmt::join(*options.mesh, "x"));
    }
    return {*options.mesh};
  }
  auto shapes = mesh_shapes(devices, options.most_axes);
  std::size_t axes = 0;
  for (const auto& [pattern, placements] : options.constraints.parameters) axes = placements.size();
  if (options.constraints.inputs) axes = options.constraints.inputs->size();
  if (axes > 0) std::erase_if(shapes, [&](const auto& each) { return each.size() != axes; });
  if (options.constraints_on) {
    std::erase_if(shapes, [&](const auto& each) { return !options.constraints_on(each); });
    if (shapes.empty()) {
      fail(ErrorKind::invalid_argument, "plan",
           "no mesh of {} devices with up to {} axes can keep the strategies given; change them, or the devices",
           devices, options.most_axes);
    }
  }
  if (shapes.empty()) {
    fail(ErrorKind::invalid_argument, "plan", "{} devices make no mesh with {} axes, which the placements given need",
         devices, axes);
  }
  return shapes;
}

Plan search(const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  const auto whole = compile(graph);
  const auto folded = fold_repeats(graph, whole);
  return Planner({.whole = whole, .folded = folded, .cluster = cluster, .options = options}).run();
}

Prediction predict(const Graph& graph, const Cluster& cluster, const std::vector<int>& mesh_sizes,
                   const Placements& inputs, const ModulePlan& parameters) {
  const auto program = compile(graph);
  Decisions decisions(program, mesh_sizes, cost_model(cluster, mesh_sizes));
  const auto space = make_space(program, mesh_sizes, {.parameters = parameters, .inputs = inputs});
  return simulate(program, decisions, start_of(program, space, decisions), Detail::modules);
}

}  // namespace lockstep::plan
