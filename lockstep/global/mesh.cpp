// The mesh: a subgroup for each line of ranks, interned placements, the cache of plans, and the trace of operators. The
// ambient mesh: that of the thread's scope, else of its last operator, else the last one made in the process.
#include <lockstep/base/error.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/dispatch/planner.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/global/placement.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {
namespace global {
namespace {

std::vector<std::string> given_or_numbered(std::vector<std::string> names, std::size_t axes) {
  if (names.empty()) {
    for (std::size_t axis = 0; axis < axes; ++axis) names.push_back(std::to_string(axis));
  }
  return names;
}

void check(const Group& group, const std::vector<int>& sizes, const std::vector<std::string>& names) {
  const bool positive = std::all_of(sizes.begin(), sizes.end(), [](int size) { return size > 0; });
  const auto ranks = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  if (sizes.empty() || !positive || ranks != group.size()) {
    fail(ErrorKind::invalid_argument, "Mesh",
         "the sizes of the axes, {}, must be positive, and their product must be the {} of the group",
         fmt::join(sizes, "x"), group.size() == 1 ? "1 rank" : fmt::format("{} ranks", group.size()));
  }
  if (names.size() != sizes.size() || std::set(names.begin(), names.end()).size() != names.size()) {
    fail(ErrorKind::invalid_argument, "Mesh", "{} axes need as many different names, not [{}]", sizes.size(),
         fmt::join(names, ", "));
  }
}

/// The group of this rank's line along `axis`. All ranks create the groups of all lines, in the same order.
Group line_along(const Group& group, const std::vector<int>& sizes, std::size_t axis) {
  if (sizes[axis] == group.size()) return group;
  std::vector<std::vector<int>> lines;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto at = coordinate_of(rank, sizes);
    if (at[axis] != 0) continue;
    const int stride =
        std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, sizes.end(), 1, std::multiplies<>());
    std::vector<int> line;
    for (int i = 0; i < sizes[axis]; ++i) line.push_back(group.world_rank(rank + i * stride));
    lines.push_back(std::move(line));
  }
  std::optional<Group> mine;
  for (const auto& line : lines) {
    if (auto found = group.subgroup(line)) mine = std::move(found);
  }
  return mine.value();
}

at::Generator default_generator(c10::Device device) {
  return device.is_cuda() ? at::globalContext().defaultGenerator(device) : at::detail::getDefaultCPUGenerator();
}

/// The state of the generator from which replicated values are drawn; it must be the same on all ranks.
OperatorTrace::Surroundings generator_of_random_numbers(c10::Device device) {
  return {.save =
              [device] {
                at::Generator generator = default_generator(device);
                const std::lock_guard lock(generator.mutex());
                const auto state = generator.get_state();
                return std::string(static_cast<const char*>(state.data_ptr()), state.nbytes());
              },
          .restore =
              [device](const std::string& bytes) {
                at::Generator generator = default_generator(device);
                const std::lock_guard lock(generator.mutex());
                auto state = generator.get_state();
                if (state.nbytes() != bytes.size()) return;
                std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
                generator.set_state(state);
              }};
}

}  // namespace

bool PlacementLess::operator()(const Placements& a, const Placements& b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](const Placement& x, const Placement& y) {
                                        return std::tuple(x.kind, x.op, x.dim) < std::tuple(y.kind, y.op, y.dim);
                                      });
}

MeshState::MeshState(Group group, std::vector<int> sizes, std::vector<std::string> names,
                     std::shared_ptr<Recorder> recorder, std::optional<c10::Device> device)
    : group_(std::move(group)),
      device_(device.value_or(c10::Device(group_.device()))),
      sizes_(std::move(sizes)),
      names_(given_or_numbered(std::move(names), sizes_.size())),
      plans_(std::make_unique<PlanCache>()),
      gathered_(std::make_unique<GatheredWays>()),
      recorder_(std::move(recorder)) {
  check(group_, sizes_, names_);
  coordinate_ = coordinate_of(group_.rank(), sizes_);
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis) axis_groups_.push_back(line_along(group_, sizes_, axis));
  replicated_ = intern(Placements(sizes_.size()));
  if (group_.size() > 1 && group_.checks_arguments()) {
    trace_ = std::make_shared<OperatorTrace>(fmt::format("{}/mesh {}", group_.name(), group_.impl().next_subgroup()),
                                             generator_of_random_numbers(device_));
    std::set groups{&group_.impl()};
    for (const auto& each : axis_groups_) groups.insert(&each.impl());
    for (auto* each : groups) each->add_trace(trace_);
  }
}

MeshState::~MeshState() = default;

const Sharding* MeshState::intern(const Placements& placements) {
  const std::lock_guard lock(mutex_);
  auto& found = shardings_[placements];
  if (!found) {
    const bool all =
        std::all_of(placements.begin(), placements.end(), [](const Placement& each) { return each.is_replicate(); });
    found = std::make_unique<Sharding>(Sharding{.placements = placements, .replicated = all});
  }
  return found.get();
}

namespace {

std::mutex last_made_mutex;
std::weak_ptr<MeshState> last_made;
thread_local std::weak_ptr<MeshState> last_used;
thread_local const MeshState* last_used_address = nullptr;
thread_local std::shared_ptr<MeshState> scoped;

}  // namespace

void set_ambient_mesh(const std::shared_ptr<MeshState>& mesh) {
  const std::lock_guard lock(last_made_mutex);
  last_made = mesh;
}

void work_with(const std::shared_ptr<MeshState>& mesh) {
  if (mesh.get() == last_used_address && !last_used.expired()) return;
  last_used = mesh;
  last_used_address = mesh.get();
}

std::shared_ptr<MeshState> ambient_mesh() {
  if (scoped) return scoped;
  if (auto mesh = last_used.lock()) return mesh;
  const std::lock_guard lock(last_made_mutex);
  return last_made.lock();
}

std::shared_ptr<MeshState> exchange_scoped_mesh(std::shared_ptr<MeshState> mesh) {
  return std::exchange(scoped, std::move(mesh));
}

}  // namespace global

Mesh::Mesh(Group group, std::vector<int> sizes, std::vector<std::string> names)
    : state_(std::make_shared<global::MeshState>(std::move(group), std::move(sizes), std::move(names))) {
  global::register_kernels();
  global::strictness();  // an invalid value of LOCKSTEP_GLOBAL_STRICT is an error now, not in a later operator
  global::set_ambient_mesh(state_);
}

Mesh::Mesh(Group group) : Mesh(group, {group.size()}) {}

const std::vector<int>& Mesh::sizes() const { return state_->sizes(); }
const std::vector<std::string>& Mesh::names() const { return state_->names(); }
int Mesh::size(std::size_t axis) const { return state_->sizes().at(axis); }
const std::vector<int>& Mesh::coordinate() const { return state_->coordinate(); }
const Group& Mesh::group() const { return state_->group(); }
c10::Device Mesh::device() const { return state_->device(); }

const Group& Mesh::group(std::size_t axis) const {
  if (axis >= axes())
    fail(ErrorKind::invalid_argument, "Mesh", "there is no axis {} in a mesh {}", axis, to_string(*this));
  return state_->group(axis);
}

std::size_t Mesh::axis(std::string_view name) const {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end()) {
    fail(ErrorKind::invalid_argument, "Mesh", "there is no axis \"{}\" in a mesh {}", name, to_string(*this));
  }
  return static_cast<std::size_t>(found - names().begin());
}

TrafficCount traffic_of(const Mesh& mesh) { return mesh.state()->traffic(); }
void reset_traffic(const Mesh& mesh) { mesh.state()->traffic() = {}; }

std::vector<std::string> gathering_calls(const Mesh& mesh) {
  return global::texts_of(mesh.state()->gathered().called());
}

std::string to_string(const Mesh& mesh) {
  return fmt::format("{} ({})", fmt::join(mesh.sizes(), "x"), fmt::join(mesh.names(), ", "));
}

}  // namespace lockstep
