// Hooks that put the partial gradients of a backward into buckets, and reduce the last ones in its final callback.
#include <lockstep/global/dispatch/operator_scope.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/gradient_bucket.h>
#include <lockstep/global/redistribute.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <unordered_set>
#include <utility>

namespace lockstep {
namespace global {
namespace {

thread_local bool holding = false;

/// Whether a gradient needs no more memory with placements `now` than with `goal`.
bool may_be_held(const Placements& now, const Placements& goal) {
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (now[axis] != goal[axis] && !goal[axis].is_replicate()) return false;
  }
  return true;
}

/// The reduction of one set of parameters. Hooks on the parameters own it, and it must not own the parameters, so that
/// it is destroyed with them.
class Reduction : public std::enable_shared_from_this<Reduction> {
 public:
  Reduction(const std::vector<at::Tensor>& parameters, const GradientReductionOptions& options) : options_(options) {
    for (const auto& each : parameters) parameters_.emplace_back(each.getIntrusivePtr());
  }

  /// Called before a gradient is added to this parameter's `.grad()`; earlier gradients have been added.
  void about_to_accumulate(std::size_t index) {
    if (!running_) begin();
    take_accumulated();
    auto& known = parameters_[index];
    const at::Tensor before = at::Tensor(known.parameter.lock()).grad();
    if (before.defined()) {
      known.may_stay = false;
      make_partial(known, before);
    }
    accumulating_ = index;
  }

 private:
  struct Known {
    explicit Known(const c10::intrusive_ptr<at::TensorImpl>& of) : parameter(of) {}
    c10::weak_intrusive_ptr<at::TensorImpl> parameter;
    const Sharding* last_sharding = nullptr;  ///< placements of the last gradient before it was finished,
    std::weak_ptr<MeshState> came_on;         ///< and its mesh: parameters may be moved to another one
    bool may_stay = true;                     ///< in a bucket; false if a program adds to existing gradients
    bool held = false;                        ///< not finished: the gradient is as backward left it
  };

  void begin() {
    running_ = true;
    first_ = true;
    auto self = shared_from_this();
    // If backward throws, the callback is destroyed without a call: then pending gradients are dropped.
    const std::shared_ptr<void> unless_called(nullptr, [self](void*) { self->forget(); });
    torch::autograd::Engine::get_default_engine().queue_callback([self, unless_called] { self->end(); });
  }

  void forget() {
    if (std::exchange(running_, false)) memory_.forget();
    accumulating_.reset();
    collecting_.clear();
    under_way_.clear();
  }

  /// Makes an already reduced gradient partial again, with its value on the first rank, so that new partial gradients
  /// can be added without reducing them one by one.
  static void make_partial(const Known& known, const at::Tensor& gradient) {
    if (!is_global(gradient)) return;
    auto& state = state_of(gradient);
    if (known.came_on.lock() != state.mesh) return;
    Placements placements = state.sharding->placements;
    bool keep = true;
    for (std::size_t axis = 0; axis < placements.size(); ++axis) {
      if (!placements[axis].is_replicate() || !known.last_sharding->placements[axis].is_partial(ReduceOp::sum))
        continue;
      placements[axis] = Partial();
      keep = keep && state.mesh->coordinate()[axis] == 0;
    }
    if (!keep) state.local.zero_();
    state.sharding = state.mesh->intern(placements);
  }

  void take_accumulated() {
    if (!accumulating_) return;
    auto& known = parameters_[*std::exchange(accumulating_, std::nullopt)];
    const at::Tensor parameter(known.parameter.lock());
    const auto& gradient = parameter.grad();
    if (!gradient.defined() || !is_global(gradient)) return;
    auto& state = state_of(gradient);
    state.fetched.reset();  // the gradient may have been a fetched view; now it belongs to the parameter
    known.last_sharding = state.sharding;
    known.came_on = state.mesh;
    const auto& of_parameter = state_of(parameter);
    const auto& goal = of_parameter.sharding->placements;
    known.held = holding && may_be_held(state.sharding->placements, goal);
    if (known.held) return;
    put({.gradient = gradient, .goal = goal, .may_stay = known.may_stay && of_parameter.local.is_contiguous()});
  }

  void put(PendingGradient gradient) {
    settle_axes_of_one_rank(gradient);
    BucketKind kind;
    if (!fits_bucket(gradient, kind)) return finish_alone(gradient);
    auto found = std::find_if(collecting_.begin(), collecting_.end(),
                              [&](const GradientBucket& each) { return each.kind() == kind; });
    if (found == collecting_.end()) found = collecting_.insert(found, GradientBucket(kind));
    found->add(std::move(gradient));
    if (found->bytes() >= (first_ ? options_.first_bucket_bytes : options_.bucket_bytes)) {
      first_ = false;
      start(found);
    }
  }

  void start(std::vector<GradientBucket>::iterator bucket) {
    auto next = std::move(*bucket);
    collecting_.erase(bucket);
    while (!has_room_for(next)) finish_first(/*last=*/false);
    under_way_.push_back(std::move(next));
    under_way_.back().start(memory_);
  }

  bool has_room_for(const GradientBucket& next) const {
    auto bytes = next.bytes();
    for (const auto& each : under_way_) bytes += each.bytes();
    return under_way_.empty() || (under_way_.size() < kMostBucketsUnderWay && bytes <= kMostBytesUnderWay);
  }

  void finish_first(bool last) {
    auto finished = under_way_.front().finish(memory_, last);
    under_way_.pop_front();
    for (auto& each : finished) put(std::move(each));
  }

  /// Along an axis of one rank, all placements are equal: uses the goal's.
  static void settle_axes_of_one_rank(const PendingGradient& each) {
    auto& state = state_of(each.gradient);
    auto placements = state.sharding->placements;
    for (std::size_t axis = 0; axis < placements.size(); ++axis) {
      if (state.mesh->sizes()[axis] == 1) placements[axis] = each.goal[axis];
    }
    if (placements != state.sharding->placements) state.sharding = state.mesh->intern(placements);
  }

  /// Redistributes a gradient to its parameter's placements, without a bucket.
  static void finish_alone(const PendingGradient& each) {
    auto& state = state_of(each.gradient);
    if (state.sharding->placements == each.goal) return;
    const OperatorScope on_trace(each.gradient, each.goal);
    set_part(each.gradient,
             redistribute_local(state.local, each.gradient.sizes(), each.gradient.suggest_memory_format(), *state.mesh,
                                state.sharding->placements, each.goal));
    state.sharding = state.mesh->intern(each.goal);
  }

  /// Adds the held gradients to which this backward added nothing.
  void put_held() {
    for (auto& known : parameters_) {
      if (!std::exchange(known.held, false)) continue;
      const at::Tensor parameter(known.parameter.lock());
      if (!parameter.defined() || !parameter.grad().defined() || !is_global(parameter.grad())) continue;
      put({.gradient = parameter.grad(), .goal = state_of(parameter).sharding->placements, .may_stay = false});
    }
  }

  void end() {
    take_accumulated();
    if (!holding) put_held();
    // A gradient that is partial on two axes is put into a second bucket.
    while (!collecting_.empty() || !under_way_.empty()) {
      while (!collecting_.empty()) start(collecting_.begin());
      finish_first(/*last=*/true);
    }
    memory_.end_backward();
    running_ = false;
  }

  GradientReductionOptions options_;
  std::vector<Known> parameters_;
  bool running_ = false;
  bool first_ = true;
  std::optional<std::size_t> accumulating_;
  std::vector<GradientBucket> collecting_;
  std::deque<GradientBucket> under_way_;
  BucketMemory memory_;
};

}  // namespace
}  // namespace global

HoldGradients::HoldGradients() : before_(std::exchange(global::holding, true)) {}
HoldGradients::~HoldGradients() { global::holding = before_; }

void reduce_gradients_in_buckets(const std::vector<at::Tensor>& parameters, const GradientReductionOptions& options) {
  std::vector<at::Tensor> trained;
  std::unordered_set<const at::TensorImpl*> seen;  // a tensor may have several names
  for (const auto& each : parameters) {
    if (!each.requires_grad() || !each.is_leaf() || !global::is_global(each)) continue;
    if (seen.insert(each.unsafeGetTensorImpl()).second) trained.push_back(each);
  }
  const auto reduction = std::make_shared<global::Reduction>(trained, options);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    trained[i].register_hook([reduction, i](const at::Tensor&) { reduction->about_to_accumulate(i); });
  }
}

}  // namespace lockstep
