#include <lockstep/base/error.h>
#include <lockstep/plan/exact.h>
#include <lockstep/plan/improve.h>
#include <lockstep/plan/module_rows.h>
#include <lockstep/plan/patterns.h>
#include <lockstep/plan/repeats.h>
#include <lockstep/plan/search.h>
#include <lockstep/plan/work.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <limits>
#include <map>

namespace lockstep::plan {
namespace {

constexpr std::size_t kMeshesToImprove = 3;
constexpr std::size_t kStartsOnEach = 2;

/// One mesh with everything that was found out about it.
struct OnMesh {
  OnMesh(const Program& program, const Cluster& cluster, std::vector<int> sizes, const Constraints& constraints)
      : decisions(program, sizes, cost_model(cluster, sizes)), space(make_space(program, sizes, constraints)) {
    for (const int ranks : sizes) along_model.push_back(megatron_axis(program, ranks));
  }

  Decisions decisions;
  Space space;
  std::vector<std::vector<Placement>> along_model;
};

struct Found {
  std::string name;
  OnMesh* mesh = nullptr;
  Assignment assignment;
  Prediction prediction;
  Score score;
  Seconds folded_cost{};  ///< of the folded program, when `prediction` is that of the whole
};

class Planner {
 public:
  Planner(const Graph& graph, const Cluster& cluster, const SearchOptions& options)
      : graph_(graph),
        cluster_(cluster),
        options_(options),
        whole_(compile(graph)),
        folded_(fold_repeats(graph, whole_)),
        budget_(options.budget) {}

  Plan run() {
    const auto begun = std::chrono::steady_clock::now();
    for (auto& sizes : shapes()) look_at(meshes_.emplace_back(folded_.program, cluster_, sizes, options_.constraints));
    improve_best();
    prove();
    auto named = named_alternatives();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return is_better(a.score, b.score); });
    // The folded program is nearly the whole one; which is best is decided on the whole.
    std::vector<Found> last(found_.begin(),
                            found_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(found_.size(), 3)));
    for (const auto& each : named) last.push_back(each);
    Found* best = nullptr;
    for (auto& each : last) {
      predict_whole(each);
      if (best == nullptr || is_better(each.score, best->score)) best = &each;
    }
    if (best->score.missing > Bytes{}) refuse(*best);
    Seconds others{std::numeric_limits<double>::infinity()};
    for (const auto& each : last) {
      if (&each != best && each.score.missing == Bytes{}) others = std::min(others, each.score.cost);
    }
    divide_batch(*best, std::max(others, best->score.cost));
    auto plan = plan_of(*best);
    for (const auto& each : last) {
      if (!each.name.empty()) plan.alternatives.push_back(alternative(each, each.name));
    }
    plan.search_time = {std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()};
    return plan;
  }

 private:
  std::vector<std::vector<int>> shapes() const {
    const int devices = cluster_.devices();
    if (options_.mesh) {
      int ranks = 1;
      for (const int size : *options_.mesh) ranks *= size;
      if (ranks != devices) {
        fail(ErrorKind::invalid_argument, "plan", "the mesh {} has {} ranks, but the cluster \"{}\" {} devices",
             fmt::join(*options_.mesh, "x"), ranks, cluster_.name, devices);
      }
      return {*options_.mesh};
    }
    auto shapes = mesh_shapes(devices, options_.most_axes);
    std::size_t axes = 0;
    for (const auto& [pattern, placements] : options_.constraints.parameters) axes = placements.size();
    if (options_.constraints.inputs) axes = options_.constraints.inputs->size();
    if (axes > 0) std::erase_if(shapes, [&](const auto& each) { return each.size() != axes; });
    if (shapes.empty()) {
      fail(ErrorKind::invalid_argument, "plan", "{} devices make no mesh with {} axes, which the placements given need",
           devices, axes);
    }
    return shapes;
  }

  Found& add(OnMesh& mesh, Assignment assignment, Prediction prediction, std::string name = {}) {
    const auto score = score_of(prediction, mesh.decisions.model());
    found_.push_back({std::move(name), &mesh, std::move(assignment), std::move(prediction), score});
    return found_.back();
  }

  Found laid_out_as(OnMesh& mesh, std::span<const AxisUse> uses, std::string name = {}) {
    auto assignment = laid_out(folded_.program, mesh.space, mesh.decisions, uses, mesh.along_model);
    auto prediction = simulate(folded_.program, mesh.decisions, assignment);
    const auto score = score_of(prediction, mesh.decisions.model());
    return {std::move(name), &mesh, std::move(assignment), std::move(prediction), score};
  }

  /// Every use of every axis.
  void look_at(OnMesh& mesh) {
    const std::size_t axes = mesh.space.mesh_sizes.size();
    std::size_t combinations = 1;
    for (std::size_t axis = 0; axis < axes; ++axis) combinations *= kAxisUses;
    std::vector<Found> here;
    for (std::size_t number = 0; number < combinations; ++number) {
      std::vector<AxisUse> uses;
      for (std::size_t axis = 0, rest = number; axis < axes; ++axis, rest /= kAxisUses) {
        uses.push_back(static_cast<AxisUse>(rest % kAxisUses));
      }
      auto tried = laid_out_as(mesh, uses);
      const auto same = std::find_if(here.begin(), here.end(),
                                     [&](const Found& each) { return each.assignment == tried.assignment; });
      if (same == here.end()) here.push_back(std::move(tried));
    }
    std::stable_sort(here.begin(), here.end(),
                     [](const Found& a, const Found& b) { return is_better(a.score, b.score); });
    // The fastest may be made to fit.
    const auto fastest = std::min_element(
        here.begin(), here.end(), [](const Found& a, const Found& b) { return a.prediction.cost < b.prediction.cost; });
    if (static_cast<std::size_t>(fastest - here.begin()) >= kStartsOnEach) found_.push_back(*fastest);
    for (std::size_t i = 0; i < std::min(here.size(), kStartsOnEach); ++i) found_.push_back(std::move(here[i]));
  }

  void improve_best() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return is_better(a.score, b.score); });
    std::vector<const OnMesh*> chosen;
    const auto starts = found_;
    const auto layers = folded_.layers_left_out > 0 ? Layers::alike : Layers::each;
    for (const auto& start : starts) {
      const bool known = std::find(chosen.begin(), chosen.end(), start.mesh) != chosen.end();
      if (!known && chosen.size() == kMeshesToImprove) continue;
      if (!known) chosen.push_back(start.mesh);
      auto better =
          improve(folded_.program, start.mesh->space, start.mesh->decisions, start.assignment, layers, budget_);
      add(*start.mesh, std::move(better.assignment), std::move(better.prediction));
    }
  }

  /// The exact search on the mesh of the best so far.
  void prove() {
    const auto best = std::min_element(found_.begin(), found_.end(),
                                       [](const Found& a, const Found& b) { return is_better(a.score, b.score); });
    OnMesh& mesh = *best->mesh;
    auto exact = search_exactly(folded_.program, mesh.space, mesh.decisions,
                                {.assignment = best->assignment, .prediction = best->prediction}, options_.exact);
    if (!exact) return;
    proven_on_ = &mesh;
    lower_bound_ = exact->lower_bound;
    proven_ = exact->proven;
    if (exact->best) add(mesh, std::move(exact->best->assignment), std::move(exact->best->prediction));
  }

  OnMesh& mesh_of(const std::vector<int>& sizes) {
    for (auto& each : meshes_) {
      if (each.space.mesh_sizes == sizes) return each;
    }
    return meshes_.emplace_back(folded_.program, cluster_, sizes, Constraints{});
  }

  std::vector<Found> named_alternatives() {
    const std::vector<int> mesh = options_.mesh.value_or(std::vector<int>{cluster_.devices()});
    std::vector<std::string> names = options_.compare;
    if (std::find(names.begin(), names.end(), "data_parallel") == names.end())
      names.insert(names.begin(), "data_parallel");
    std::vector<Found> named;
    for (const auto& name : names) {
      if (name == "data_parallel" || name == "zero3") {
        const std::vector<AxisUse> uses(mesh.size(), name == "zero3" ? AxisUse::zero : AxisUse::data);
        named.push_back(laid_out_as(mesh_of(mesh), uses, name));
      } else if (name == "megatron") {
        named.push_back(megatron(mesh));
      } else {
        fail(ErrorKind::invalid_argument, "plan",
             "there is no alternative \"{}\"; known are data_parallel, zero3 and megatron", name);
      }
    }
    return named;
  }

  /// The last axis is the model's; where the mesh is free, the best of all that have two axes.
  Found megatron(const std::vector<int>& mesh) {
    const auto on = [&](const std::vector<int>& sizes) {
      std::vector<AxisUse> uses(sizes.size(), AxisUse::data);
      uses.back() = AxisUse::model;
      return laid_out_as(mesh_of(sizes), uses, "megatron");
    };
    auto best = on(mesh);
    if (options_.mesh) return best;
    for (const auto& sizes : mesh_shapes(cluster_.devices(), 2)) {
      auto tried = on(sizes);
      if (is_better(tried.score, best.score)) best = std::move(tried);
    }
    return best;
  }

  /// Placements by the numbers of `decisions` for the whole program.
  Assignment on_whole(const Found& found, Decisions& decisions) const {
    Assignment assignment(whole_.values.size(), kReplicated);
    const auto copy = [&](std::size_t to, std::size_t from) {
      assignment[to] = decisions.number(found.mesh->decisions.placements(found.assignment[from]));
    };
    for (std::size_t i = 0; i < whole_.parameters.size(); ++i) copy(whole_.parameters[i], folded_.decided_by[i]);
    for (const auto input : whole_.inputs) copy(input, input);
    return assignment;
  }

  void predict_whole(Found& found) {
    auto& kept = on_whole_[found.mesh];
    if (!kept) kept.emplace(whole_, found.mesh->space.mesh_sizes, found.mesh->decisions.model());
    Decisions& decisions = *kept;
    if (found.folded_cost == Seconds{}) found.folded_cost = found.prediction.cost;
    found.prediction = simulate(whole_, decisions, on_whole(found, decisions), Detail::modules);
    found.score = score_of(found.prediction, decisions.model());
  }

  /// Where it makes next to no difference to the step, each rank reads its part of the batch only. The step stays as
  /// fast as `at_most`, what the others need.
  void divide_batch(Found& best, Seconds at_most) {
    constexpr double kNextToNothing = 1e-3;
    const auto& space = best.mesh->space;
    const std::size_t axes = space.mesh_sizes.size();
    const auto now = inputs_of(best);
    if (space.fixed_inputs) return;
    for (std::size_t mask = (std::size_t{1} << axes) - 1; mask > 0; --mask) {
      Placements inputs(axes);
      for (std::size_t axis = 0; axis < axes; ++axis) {
        if (((mask >> axis) & 1) != 0) inputs[axis] = Shard(0);
      }
      bool more = inputs != now;
      for (std::size_t axis = 0; axis < axes; ++axis) more = more && (inputs[axis].is_shard() || !now[axis].is_shard());
      if (!more) continue;
      Found tried = best;
      place_inputs(folded_.program, space, inputs, best.mesh->decisions, tried.assignment);
      tried.folded_cost = simulate(folded_.program, best.mesh->decisions, tried.assignment).cost;
      if (tried.folded_cost > (1 + kNextToNothing) * best.folded_cost) continue;
      predict_whole(tried);
      const bool as_good = tried.score.missing == Bytes{} &&
                           tried.score.cost <= std::min(at_most, (1 + kNextToNothing) * best.score.cost);
      if (as_good) {
        best = std::move(tried);
        return;
      }
    }
  }

  Alternative alternative(const Found& found, std::string name) const {
    return {.name = std::move(name),
            .mesh_sizes = found.mesh->space.mesh_sizes,
            .cost = found.prediction.cost,
            .memory = found.prediction.memory.total(),
            .fits = found.score.missing == Bytes{}};
  }

  Placements inputs_of(const Found& found) const {
    Placements inputs(found.mesh->space.mesh_sizes.size());
    for (const auto input : folded_.program.inputs) {
      const auto& lies = found.mesh->decisions.placements(found.assignment[input]);
      if (lies != Placements(inputs.size())) return lies;
    }
    return inputs;
  }

  Plan plan_of(const Found& best) {
    Plan plan;
    plan.mesh_sizes = best.mesh->space.mesh_sizes;
    plan.inputs = inputs_of(best);
    plan.mesh_names = axis_names(plan.inputs);
    plan.cluster = cluster_.name;
    plan.devices = cluster_.devices();
    plan.device_memory = cluster_.device.memory;
    plan.prediction = best.prediction;
    plan.prediction.modules.clear();
    plan.lower_bound = lower_bound();
    if (proven_on_ == best.mesh) {
      // The proof is about the folded program, which is a little off the whole.
      plan.lower_bound = std::max(
          plan.lower_bound, std::min(best.prediction.cost, lower_bound_ * (best.prediction.cost / best.folded_cost)));
      plan.optimal = proven_ && !(lower_bound_ < best.folded_cost * (1 - 1e-9));
    }
    std::vector<std::pair<std::string, Placements>> parameters;
    for (std::size_t i = 0; i < whole_.parameters.size(); ++i) {
      const auto& item = whole_.values[whole_.parameters[i]];
      parameters.emplace_back(item.name, best.mesh->decisions.placements(best.assignment[folded_.decided_by[i]]));
      plan.known.push_back({.name = item.name, .sizes = item.info.sizes});
    }
    plan.parameters = shortened(parameters);
    plan.modules = module_rows({.whole = whole_,
                                .folded = folded_,
                                .space = best.mesh->space,
                                .decisions = best.mesh->decisions,
                                .assignment = best.assignment,
                                .costs = best.prediction.modules});
    plan.alternatives.push_back(alternative(best, "auto"));
    return plan;
  }

  /// All devices busy all the time, and nothing to send.
  Seconds lower_bound() const {
    const auto model = cost_model(cluster_, std::array{cluster_.devices()});
    Seconds least{};
    for (const auto& step : whole_.steps) {
      const auto& call = whole_.operators[step.op].call;
      std::vector<global::Sizes> inputs;
      std::vector<global::Sizes> outputs;
      for (const auto& each : call.tensors) inputs.push_back(each.sizes);
      for (const auto& each : call.outputs) outputs.push_back(each.sizes);
      auto work = work_of(call, inputs, outputs);
      work.flops = work.flops / cluster_.devices();
      work.touched = work.touched / cluster_.devices();
      least += step.times * model.compute(work);
    }
    return least;
  }

  /// Twice as many devices, until parameters divided over all of them fit.
  std::optional<int> devices_that_fit() const {
    for (int devices = cluster_.devices() * 2; devices <= kMostDevices; devices *= 2) {
      const auto larger = resized(cluster_, devices);
      for (const auto& shape : mesh_shapes(devices, 2)) {
        OnMesh mesh(folded_.program, larger, shape, Constraints{});
        for (const auto use : {AxisUse::zero, AxisUse::model}) {
          std::vector<AxisUse> uses(shape.size(), AxisUse::zero);
          uses.back() = use;
          const auto assignment = laid_out(folded_.program, mesh.space, mesh.decisions, uses, mesh.along_model);
          const auto prediction = simulate(folded_.program, mesh.decisions, assignment);
          if (prediction.memory.total() <= larger.device.memory) return devices;
        }
      }
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse(const Found& best) const {
    constexpr double kGigabyte = 1e9;
    const auto devices = devices_that_fit();
    const auto& memory = best.prediction.memory;
    fail(ErrorKind::unsupported, "plan",
         "no plan for {} devices of \"{}\" fits: the smallest found needs {:.2f} GB on each, which has {:.2f} GB; "
         "{:.2f} GB "
         "are missing (parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}). {}",
         cluster_.devices(), cluster_.name, memory.total().value / kGigabyte, cluster_.device.memory.value / kGigabyte,
         best.score.missing.value / kGigabyte, memory.parameters.value / kGigabyte, memory.gradients.value / kGigabyte,
         memory.optimizer_state.value / kGigabyte, memory.activations.value / kGigabyte,
         devices ? fmt::format("{} devices of this kind would do; or make the batch smaller", *devices)
                 : fmt::format("Not even {} devices of this kind would do; make the batch or the model smaller",
                               kMostDevices));
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  Program whole_;
  Folded folded_;
  std::size_t budget_;
  std::deque<OnMesh> meshes_;
  std::vector<Found> found_;
  std::map<const OnMesh*, std::optional<Decisions>> on_whole_;
  const OnMesh* proven_on_ = nullptr;
  Seconds lower_bound_{};
  bool proven_ = false;
};

}  // namespace

Plan search(const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  return Planner(graph, cluster, options).run();
}

Prediction predict(const Graph& graph, const Cluster& cluster, const std::vector<int>& mesh_sizes,
                   const Placements& inputs, const ModulePlan& parameters) {
  const auto program = compile(graph);
  Decisions decisions(program, mesh_sizes, cost_model(cluster, mesh_sizes));
  const auto space = make_space(program, mesh_sizes, {.parameters = parameters, .inputs = inputs});
  return simulate(program, decisions, start_of(program, space, decisions), Detail::modules);
}

}  // namespace lockstep::plan
