// The mapping of a rank's status page, the table of group names, and its reader: a read of the file, without mmap; and
// sentences about a rank's progress: its completed step, and the collective that it is in or has finished.
#include <lockstep/base/log.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/unique_fd.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

namespace lockstep {
namespace {

/// Maps a new file of `bytes`; null on failure. Disk space is allocated first, because a write to a mapped page without
/// disk space would kill the process (SIGBUS).
void* map_file(const std::filesystem::path& path, std::size_t bytes) noexcept {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Anonymous memory of this process; null on failure.
void* map_own_memory(std::size_t bytes) noexcept {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

std::string describe(const CollectiveMark& mark) {
  return mark.group.empty() ? fmt::format("{} {}", mark.op, mark.number)
                            : fmt::format("{} {} of group \"{}\"", mark.op, mark.number, mark.group);
}

std::string describe_step(const RankProgress& progress) {
  if (progress.step) return fmt::format("had completed step {}", *progress.step);
  if (progress.backwards == 0) return "";
  return fmt::format("had completed {} backward pass{}", progress.backwards, progress.backwards == 1 ? "" : "es");
}

std::string describe_collective(const RankProgress& progress) {
  if (!progress.begun) return "";
  if (progress.begun == progress.ended) return fmt::format("had finished {}", describe(*progress.begun));
  const double seconds = static_cast<double>(progress.since_begun.count()) / 1000.0;
  auto text = fmt::format("was in {}, which it began {:.1f} s before", describe(*progress.begun), seconds);
  // Several collectives may be in progress.
  if (progress.ended) text += fmt::format(" (the last that ended: {})", describe(*progress.ended));
  return text;
}

auto place_of(const RankProgress& progress) {
  return std::tie(progress.step, progress.backwards, progress.begun, progress.ended);
}

}  // namespace

void StatusPage::Unmap::operator()(Page* page) const noexcept { ::munmap(page, sizeof(Page)); }

StatusPage StatusPage::open(const Environment& environment) noexcept {
  StatusPage status;
  try {
    const auto path = find(environment, "LOCKSTEP_STATUS_FILE");
    void* memory = path && !path->empty() ? map_file(*path, sizeof(Page)) : nullptr;
    if (memory == nullptr) {
      if (path && !path->empty()) log_debug("no status page: cannot make {}: {}", *path, std::strerror(errno));
      memory = map_own_memory(sizeof(Page));
    }
    if (memory == nullptr) return status;
    status.page_.reset(std::construct_at(static_cast<Page*>(memory)));
    status.page_->magic.store(kMagic, std::memory_order_release);
  } catch (const std::exception&) {
    // A rank must not fail because of its status page (see the header).
  }
  return status;
}

std::uint8_t StatusPage::name_group(std::string_view name) noexcept {
  if (!page_) return 0;
  const auto index = page_->groups.load(std::memory_order_relaxed);
  if (index >= kNamedGroups) return 0;
  auto& room = page_->names.at(index);
  std::copy_n(name.begin(), std::min(name.size(), kNameBytes - 1), room.begin());
  page_->groups.store(index + 1, std::memory_order_release);
  return static_cast<std::uint8_t>(index + 1);
}

std::optional<CollectiveMark> StatusPage::unpack(std::uint64_t packed, const Page& page) {
  const auto op = static_cast<std::size_t>(packed >> 56);
  const auto group = static_cast<std::size_t>((packed >> 48) & 0xff);
  if (op == 0 || op >= kCollectiveNames.size()) return std::nullopt;
  CollectiveMark mark{std::string(kCollectiveNames.at(op)), packed & ((std::uint64_t{1} << 48) - 1), ""};
  if (group > 0 && group <= kNamedGroups) {
    const auto& name = page.names.at(group - 1);
    mark.group.assign(name.begin(), std::find(name.begin(), name.end(), '\0'));
  }
  return mark;
}

RankProgress StatusPage::read(const Page& page, Time until) {
  RankProgress progress;
  if (page.has_step.load() != 0) progress.step = page.step.load();
  progress.backwards = page.backwards.load();
  progress.begun = unpack(page.begun.load(), page);
  progress.ended = unpack(page.ended.load(), page);
  if (progress.begun) {
    const Time begun_at{Time::duration(page.begun_at.load())};
    progress.since_begun =
        std::max(std::chrono::duration_cast<std::chrono::milliseconds>(until - begun_at), std::chrono::milliseconds(0));
  }
  return progress;
}

RankProgress StatusPage::progress(Time until) const { return page_ ? read(*page_, until) : RankProgress{}; }

std::optional<RankProgress> read_status_page(const std::filesystem::path& file, StatusPage::Time until) {
  // The file is read, not mapped: a file that is too short then gives nullopt instead of SIGBUS.
  const UniqueFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  StatusPage::Page page;
  if (!in || ::read(in.get(), static_cast<void*>(&page), sizeof page) != static_cast<ssize_t>(sizeof page)) {
    return std::nullopt;
  }
  if (page.magic.load() != StatusPage::kMagic) return std::nullopt;
  return StatusPage::read(page, until);
}

std::string describe(const RankProgress& progress) {
  const std::string step = describe_step(progress);
  const std::string collective = describe_collective(progress);
  return step + (step.empty() || collective.empty() ? "" : " and ") + collective;
}

bool same_place(const RankProgress& one, const RankProgress& other) { return place_of(one) == place_of(other); }

}  // namespace lockstep
