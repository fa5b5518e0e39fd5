#include <lockstep/cli/state_place.h>
#include <lockstep/cluster/etcd/address.h>
#include <lockstep/cluster/etcd/entry.h>

#include <chrono>
#include <memory>

namespace lockstep::cli {
namespace {

using cluster::etcd::Entry;

// At the start nothing can be done without it; later the job goes on meanwhile.
constexpr auto kLoad = std::chrono::seconds(60);
constexpr auto kSave = std::chrono::seconds(5);

}  // namespace

scheduler::StatePlace state_place(const std::string& recovery_path) {
  if (!cluster::etcd::is_url(recovery_path)) {
    return scheduler::state_in_file(std::filesystem::path(recovery_path) / "scheduler.json");
  }
  const auto url = cluster::etcd::parse_url(recovery_path, "MS_RECOVERY_PATH");
  const auto entry = std::make_shared<Entry>(url.address, url.key);
  return {entry->describe(), [entry] { return entry->read(kLoad); },
          [entry](const std::string& text) { entry->write(text, kSave); }};
}

}  // namespace lockstep::cli
