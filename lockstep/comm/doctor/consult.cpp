#include <lockstep/base/error.h>
#include <lockstep/comm/doctor/among_ranks.h>
#include <lockstep/comm/doctor/consult.h>
#include <lockstep/comm/doctor/own_facts.h>
#include <lockstep/comm/open_store.h>
#include <lockstep/comm/rendezvous.h>
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <system_error>

namespace lockstep::doctor {
namespace {

// A store that was not there for a whole start-up will not come in the last moment.
constexpr auto kVisit = std::chrono::seconds(2);

// The doctor's own file, as that of the job must be new when the job comes. The last rank's store removes it. Where not
// all came rank 0 does: what is in it would be taken for the facts of the next time.
class MeetingFile {
 public:
  explicit MeetingFile(World& world) {
    if (world.meeting != Meeting::file) return;
    world.store_path += ".doctor";
    if (world.rank == 0) path_ = world.store_path;
  }
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;
  void leave_to_store() { path_.clear(); }
  ~MeetingFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

// What can be said without the others, and why they were not met.
Consultation alone(Facts mine, const Request& request, const std::string& why, std::vector<int> missing = {}) {
  Consultation done;
  done.job.size = request.world.size;
  done.job.master = master_of(request.world);
  done.job.ranks = {std::move(mine)};
  done.job.unmet = why;
  done.job.missing = std::move(missing);
  done.findings = examine(done.job);
  done.sound = count(done.findings, Severity::error) == 0;
  return done;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What went wrong on the way to the others is a finding.
Consultation alone_unless(Facts mine, const Request& request, const std::function<Consultation()>& meet) {
  try {
    return meet();
  } catch (const Error& error) {
    return alone(std::move(mine), request, error.message());
  } catch (const std::exception& error) {
    return alone(std::move(mine), request,
                 fmt::format("the store where ranks meet broke off: {}", first_line(error.what())));
  }
}

Consultation silence() {
  Consultation done;
  done.speaks = false;
  return done;
}

Consultation among_those_here(const Facts& mine, const Request& request, const detail::StorePtr& store) {
  // Rank 0 leads, also where the launcher holds the store.
  const bool led = mine.rank == 0 || detail::absent_ranks(*store, 1).empty();
  if (!led) return alone(mine, request, "", {0});
  Gathering gathering;
  gathering.all_are_asked = false;
  if (mine.rank == 0) gathering.absent = detail::absent_ranks(*store, request.world.size);
  Notes notes(store, "slow_start");
  try {
    return among_ranks(notes, mine, request, gathering);
  } catch (const Error&) {
    if (mine.rank == 0) throw;
    return silence();  // rank 0 started later: it will look for itself
  }
}

}  // namespace

Consultation consult(const Request& request) {
  Facts mine = own_facts(request, OpensPort::yes);
  // With the port taken there is no way to meet, and rank 0 knows why.
  const bool port_is_taken = mine.port && !mine.port->problem.empty();
  if (request.world.size == 1 || port_is_taken) return alone(std::move(mine), request, "");
  return alone_unless(mine, request, [&] {
    World world = request.world;
    MeetingFile file(world);  // outlives the store
    const auto opened = detail::open_store(world, request.wait);
    offer_route_to_store(mine, world, opened.host, opened.port);
    Notes notes(opened.store, "doctor");
    Gathering gathering;
    // Who comes now comes for the next meeting, of a program that follows this one.
    gathering.closed = [&opened] { detail::close_meeting(*opened.store); };
    auto done = among_ranks(notes, mine, request, gathering);
    if (done.job.missing.empty()) file.leave_to_store();
    return done;
  });
}

Consultation consult_beside_start(const Request& request, const std::string& host, std::uint16_t port, bool found) {
  Facts mine = own_facts(request, OpensPort::no);
  offer_route_to_store(mine, request.world, host, port);
  if (request.world.meeting != Meeting::file && host.empty()) {
    return alone(mine, request, "the place where ranks meet is not known yet");
  }
  return alone_unless(mine, request, [&] {
    const auto limit = std::min<std::chrono::milliseconds>(request.wait, kVisit);
    return among_those_here(mine, request, detail::visit_store(request.world, host, port, found, limit));
  });
}

}  // namespace lockstep::doctor
