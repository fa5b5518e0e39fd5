#include <lockstep/comm/rejoin.h>

#include <lockstep/base/log.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/job.h>
#include <lockstep/comm/join.h>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// All ranks wait for their ranks when a generation begins, so that it takes no longer than their network does. One
// that is lost on the way must not keep the others for as long as they would wait for a program to start.
constexpr milliseconds kLongestMeeting = std::chrono::seconds(20);

// Ranks that die on the way are replaced; what fails for another reason fails again.
constexpr int kMostAttempts = 20;

}  // namespace

std::optional<Group> detail::join_with_recovery(const World& world, const std::shared_ptr<MemberSession>& session,
                                                const GroupOptions& settings) {
  GroupOptions quick = settings;
  quick.start_timeout = std::min(settings.start_timeout, kLongestMeeting);
  for (int attempt = 1;; ++attempt) {
    std::string reason;
    try {
      return join(at_place(world, session->place()), session, quick);
    } catch (const Error& error) {
      if (!is_loss(error) || attempt == kMostAttempts) throw;
      reason = error.what();
    }
    log_warning("the meeting of generation {} failed: {}", session->place().generation, reason);
    session->ask_again(reason);
    if (!session->await_next_place()) return std::nullopt;
  }
}

bool can_rejoin(const Group& group) {
  const auto& session = group.impl().job()->session();
  return session && session->recovers();
}

bool is_loss(const Error& error) { return error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::timeout; }

std::optional<Group> rejoin(Group group, const std::string& reason) {
  const auto session = group.impl().job()->session();
  const auto settings = group.impl().job()->options();
  const auto world = group.world();
  session->ask_again(reason);
  std::optional<Group>(std::move(group)).reset();  // closes what the others may still wait on
  if (!session->await_next_place()) return std::nullopt;
  return detail::join_with_recovery(world, session, settings);
}

LossWatch::LossWatch(const Group& group) : group_(group) {
  const auto& session = group_.impl().job()->session();
  if (!session) return;
  session->on_broken([this](const std::string& reason) {
    group_.impl().job()->end_groups(Error(ErrorKind::peer_lost, "group", reason));
  });
}

LossWatch::~LossWatch() {
  if (const auto& session = group_.impl().job()->session()) session->on_broken(nullptr);
}

}  // namespace lockstep
