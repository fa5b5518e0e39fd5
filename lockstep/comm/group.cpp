// The class Group as a handle of its implementation, and the creation of subgroups, between two agreements of all
// ranks.
#include <lockstep/comm/group.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/group_impl.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {
namespace {

std::optional<std::string> problem_with_list(const Group& group, const std::vector<int>& world_ranks) {
  if (world_ranks.empty()) return "a subgroup needs at least one rank";
  std::set<int> seen;
  for (const int rank : world_ranks) {
    if (!group.contains(rank)) {
      return fmt::format("world rank {} is not in group \"{}\", which has world ranks {}", rank, group.name(),
                         fmt::join(group.ranks(), ", "));
    }
    if (!seen.insert(rank).second) return fmt::format("world rank {} is listed twice", rank);
  }
  return std::nullopt;
}

}  // namespace

Group::Group(std::shared_ptr<detail::GroupImpl> impl)
    : impl_(std::move(impl)), checks_(impl_->job()->options().check_collectives) {}

int Group::rank() const { return impl_->members().rank; }
int Group::size() const { return impl_->members().size(); }
int Group::local_rank() const { return impl_->members().local_rank; }
int Group::local_size() const { return impl_->members().local_size; }
const std::vector<int>& Group::ranks() const { return impl_->members().world_ranks; }
const std::string& Group::name() const { return impl_->members().name; }
std::string_view Group::backend() const { return impl_->backend_name(); }
const std::string& Group::device() const { return impl_->device_name(); }
const World& Group::world() const { return impl_->job()->world(); }
std::chrono::milliseconds Group::timeout() const { return impl_->job()->options().timeout; }

int Group::world_rank(int group_rank) const {
  if (group_rank < 0 || group_rank >= size()) {
    fail(ErrorKind::invalid_argument, "world_rank", "group rank {} is not one of the {} ranks of group \"{}\"",
         group_rank, size(), name());
  }
  return ranks()[static_cast<std::size_t>(group_rank)];
}

int Group::group_rank(int world_rank) const {
  const auto found = std::find(ranks().begin(), ranks().end(), world_rank);
  if (found == ranks().end()) {
    fail(ErrorKind::invalid_argument, "group_rank", "world rank {} is not in group \"{}\", which has world ranks {}",
         world_rank, name(), fmt::join(ranks(), ", "));
  }
  return static_cast<int>(found - ranks().begin());
}

bool Group::contains(int world_rank) const {
  return std::find(ranks().begin(), ranks().end(), world_rank) != ranks().end();
}

Group Group::unchecked() const {
  Group other = *this;
  other.checks_ = false;
  return other;
}

std::optional<Group> Group::subgroup(const std::vector<int>& world_ranks) const {
  const auto call = impl_->begin("subgroup");
  // Always compared, because ranks with different lists would wait for each other forever.
  detail::agree(*impl_, call, fmt::format("subgroup of world ranks {}", fmt::join(world_ranks, ", ")),
                problem_with_list(*this, world_ranks));
  const auto name = fmt::format("{}/{}", impl_->members().name, impl_->next_subgroup());
  const int self = world_rank(rank());

  std::optional<Group> created;
  std::exception_ptr problem;
  if (std::find(world_ranks.begin(), world_ranks.end(), self) != world_ranks.end()) {
    try {
      auto members = detail::group_members(name, world_ranks, self, impl_->job()->members());
      created.emplace(
          detail::GroupImpl::make(impl_->job(), std::move(members), impl_->requested_backend(), impl_.get()));
      created->checks_ = checks_;
    } catch (...) {
      problem = std::current_exception();
    }
  } else {
    try {
      impl_->left_out_of_subgroup();
    } catch (...) {
      problem = std::current_exception();
    }
  }
  // It also prevents the rank that holds the store from leaving before the members have connected through it.
  try {
    detail::agree(*impl_, call, problem ? "subgroup failed" : "subgroup made", std::nullopt);
  } catch (const Error&) {
    if (!problem) throw;
  }
  if (problem) std::rethrow_exception(problem);
  impl_->ended(call);
  return created;
}

void Group::abort(std::string_view reason) noexcept { impl_->abort(reason); }

void completed_step(const Group& group, std::int64_t step) noexcept { group.impl().job()->complete_step(step); }

void completed_backward(const Group& group) noexcept { group.impl().job()->status_page().complete_backward(); }

}  // namespace lockstep
