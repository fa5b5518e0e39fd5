// The mapping of a rank's status page: a head with its progress and tables of names, then a ring of calls for each
// group; its reader: a read of the file, without mmap; and sentences about a rank's progress.
#include <lockstep/base/log.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/unique_fd.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <utility>

namespace lockstep {

// The layout of a page, in a namespace with a name because a member of StatusPage refers to it.
namespace status_layout {

using Number = std::atomic<std::uint64_t>;
using Integer = std::atomic<std::int64_t>;
static_assert(Number::is_always_lock_free && Integer::is_always_lock_free);

constexpr std::uint64_t kMagic = 0x3330'4547'4150'534c;  // "LSPAGE03" in the bytes of a little-endian machine
constexpr std::size_t kNameBytes = 64;
constexpr std::size_t kPlaceBytes = 96;
constexpr std::size_t kPlaces = 255;
constexpr std::size_t kMetrics = 16;
constexpr std::size_t kPathBytes = 1024;
constexpr std::size_t kMapPage = 4096;
constexpr std::int64_t kNone = -1;
constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << 48) - 1;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

template <std::size_t N>
using Text = std::array<char, N>;

struct Metric {
  Text<kNameBytes> name{};
  Integer step{0};
  std::atomic<double> value{0};
};

}  // namespace status_layout

namespace {

using namespace status_layout;

template <std::size_t N>
void put(Text<N>& room, std::string_view text) noexcept {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), room.begin());
}

template <std::size_t N>
std::string text_in(const Text<N>& room) {
  return {room.begin(), std::find(room.begin(), room.end(), '\0')};
}

std::int64_t ticks(StatusPage::Time time) { return time.time_since_epoch().count(); }
StatusPage::Time time_of(std::int64_t ticks) { return StatusPage::Time(StatusPage::Time::duration(ticks)); }

std::optional<std::int64_t> known(std::int64_t value) { return value == kNone ? std::nullopt : std::optional(value); }
std::optional<std::int64_t> known(const Integer& value) { return known(value.load(kRelaxed)); }

/// Differs between processes, also between those with one number in different containers, and those that were forked.
std::uint64_t this_process() {
  static const auto begun = static_cast<std::uint64_t>(ticks(std::chrono::steady_clock::now()));
  return (static_cast<std::uint64_t>(::getpid()) << 32) ^ begun;
}

/// 8 bits collective, 8 bits dtype, 48 bits number: never 0.
std::uint64_t mark_of(const StatusPage::Call& call) noexcept {
  return (std::uint64_t{call.op} << 56) | (std::uint64_t{call.element} << 48) | (call.number & kMostNumber);
}

}  // namespace

/// A cache line.
struct alignas(64) StatusPage::Slot {
  Number mark{0};  ///< 0: none, or being written
  Integer asked{0};
  Integer begun{kNone};
  Integer completed{kNone};
  Number bytes{0};
  Integer step{kNone};
  Number place{0};
};

namespace status_layout {

using Slot = StatusPage::Slot;

struct Ring {
  alignas(64) Number count{0};  ///< calls so far
  std::array<Slot, StatusPage::kRemembered> slots{};
};
static_assert(sizeof(Ring) % kMapPage == 0);

struct Head {
  Number magic{0};    ///< kMagic once the rest is initialized
  Number process{0};  ///< this_process() of its writer
  Integer rank{kNone};
  Integer step{kNone};
  Integer backwards{0};
  Integer total_steps{kNone};
  Integer epoch{kNone};
  Integer saved_step{kNone};
  Integer samples{0};
  Integer blocked{0};
  Integer doing{kNone};
  Integer serves{0};
  std::array<Integer, kTimeParts.size()> times{};
  Number metrics{0};
  std::array<Metric, kMetrics> metric{};
  Number has_work_dir{0};
  Text<kPathBytes> work_dir{};
  Number groups{0};  ///< number of groups with names
  std::array<Text<kNameBytes>, StatusPage::kNamedGroups> names{};
  Number places{0};
  std::array<Text<kPlaceBytes>, kPlaces> place{};
};

/// The whole page. The rings are behind each other; that of number 0 is always there, the others as far as named.
struct Page {
  alignas(kMapPage) Head head;
  alignas(kMapPage) std::array<Ring, StatusPage::kNamedGroups + 1> rings;
};

constexpr std::size_t bytes_with(std::uint64_t groups) { return offsetof(Page, rings) + (groups + 1) * sizeof(Ring); }

}  // namespace status_layout

struct StatusPage::Mapping {
  status_layout::Page* page = nullptr;
  UniqueFd file;  ///< none: private memory
  std::mutex mutex;
  std::map<std::string, std::uint32_t, std::less<>> places;
};

namespace {

/// Makes room in the file. Disk space is allocated before it is used, because a write to a mapped page without disk
/// space would kill the process (SIGBUS).
bool make_room(const UniqueFd& file, std::uint64_t groups) noexcept {
  return ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_with(groups))) == 0;
}

/// Maps the file, of which the head and one ring exist then; null on failure.
void* map_file(const UniqueFd& file) noexcept {
  if (!file || !make_room(file, 0)) return nullptr;
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Anonymous memory of this process, which takes space where it is used; null on failure.
void* map_own_memory() noexcept {
  void* const memory =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

// ---- readers

/// A slot as it was at one time.
struct ReadSlot {
  std::size_t op = 0;
  std::size_t element = 0;
  std::uint64_t number = 0;
  std::int64_t asked = 0;
  std::int64_t begun = kNone;
  std::int64_t completed = kNone;
  std::uint64_t bytes = 0;
  std::int64_t step = kNone;
  std::uint64_t place = 0;
};

/// nullopt for a slot that is empty or that changes meanwhile: where a value is that of a later call, the mark that is
/// read after it is no longer the one before.
std::optional<ReadSlot> read(const Slot& slot) {
  const auto mark = slot.mark.load(kAcquire);
  const ReadSlot call{.op = static_cast<std::size_t>(mark >> 56),
                      .element = static_cast<std::size_t>((mark >> 48) & 0xff),
                      .number = mark & kMostNumber,
                      .asked = slot.asked.load(kAcquire),
                      .begun = slot.begun.load(kAcquire),
                      .completed = slot.completed.load(kAcquire),
                      .bytes = slot.bytes.load(kAcquire),
                      .step = slot.step.load(kAcquire),
                      .place = slot.place.load(kAcquire)};
  const bool whole = slot.mark.load(kRelaxed) == mark;
  const bool valid = call.op > 0 && call.op < kCollectiveNames.size() && call.element < kElementNames.size();
  return whole && valid ? std::optional(call) : std::nullopt;
}

/// Calls `use` for each call in the ring, the oldest first.
template <typename Use>
void for_each_call(const Ring& ring, const Use& use) {
  const auto count = ring.count.load(kAcquire);
  const auto first = count > StatusPage::kRemembered ? count - StatusPage::kRemembered : 0;
  for (auto i = first; i < count; ++i) {
    if (const auto call = read(ring.slots.at(i % StatusPage::kRemembered))) use(*call);
  }
}

std::optional<StatusPage::Time> time_if_known(std::int64_t ticks) {
  return ticks == kNone ? std::nullopt : std::optional(time_of(ticks));
}

CallRecord record_of(const ReadSlot& call, const Head& head) {
  const auto places = std::min<std::uint64_t>(head.places.load(kAcquire), kPlaces);
  return {.op = std::string(kCollectiveNames.at(call.op)),
          .number = call.number,
          .element = std::string(kElementNames.at(call.element)),
          .bytes = call.bytes,
          .step = known(call.step),
          .place = call.place > 0 && call.place <= places ? text_in(head.place.at(call.place - 1)) : "",
          .asked = time_of(call.asked),
          .begun = time_if_known(call.begun),
          .completed = time_if_known(call.completed)};
}

std::uint64_t named_groups(const Page& page) {
  return std::min<std::uint64_t>(page.head.groups.load(kAcquire), StatusPage::kNamedGroups);
}

std::string name_of_group(const Page& page, std::uint64_t ring) {
  return ring == 0 ? "" : text_in(page.head.names.at(ring - 1));
}

/// `rings`: those that are in the copy.
std::vector<GroupCalls> calls_in(const Page& page, std::uint64_t rings) {
  std::vector<GroupCalls> groups;
  for (std::uint64_t i = 0; i <= named_groups(page) && i < rings; ++i) {
    GroupCalls group{name_of_group(page, i), {}};
    for_each_call(page.rings.at(i), [&](const ReadSlot& call) { group.calls.push_back(record_of(call, page.head)); });
    if (i > 0 || !group.calls.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

/// A call, and where it is in a page.
struct FoundCall {
  ReadSlot call;
  std::uint64_t ring = 0;
};

/// The calls of a ring that say where its group is.
struct GroupProgress {
  std::optional<ReadSlot> waits_for;  ///< the call for which the program waits
  std::optional<ReadSlot> completed;  ///< the last call that is complete
};

/// Calls of a group are completed in their order, messages apart from collectives: one that is not complete before one
/// that is was given up.
GroupProgress progress_in(const Ring& ring) {
  constexpr auto kSend = number_of_collective("send"), kReceive = number_of_collective("receive");
  GroupProgress progress;
  std::array<std::optional<ReadSlot>, 2> first;  // collectives and messages
  for_each_call(ring, [&](const ReadSlot& call) {
    auto& found = first.at(call.op == kSend || call.op == kReceive ? 1 : 0);
    if (call.completed != kNone) {
      found.reset();
      if (!progress.completed || call.asked >= progress.completed->asked) progress.completed = call;
    } else if (!found) {
      found = call;
    }
  });
  const bool message = first[1] && (!first[0] || first[1]->asked < first[0]->asked);
  progress.waits_for = message ? first[1] : first[0];
  return progress;
}

RankProgress progress_in(const Page& page, std::uint64_t rings, StatusPage::Time until) {
  std::optional<FoundCall> first;
  std::optional<FoundCall> ended;
  for (std::uint64_t i = 0; i <= named_groups(page) && i < rings; ++i) {
    const auto [waits_for, completed] = progress_in(page.rings.at(i));
    if (waits_for && (!first || waits_for->asked < first->call.asked)) first = FoundCall{*waits_for, i};
    if (completed && (!ended || completed->asked >= ended->call.asked)) ended = FoundCall{*completed, i};
  }
  const auto mark = [&](const FoundCall& found) {
    return CollectiveMark{std::string(kCollectiveNames.at(found.call.op)), found.call.number,
                          name_of_group(page, found.ring)};
  };
  RankProgress progress;
  progress.step = known(page.head.step);
  progress.backwards = page.head.backwards.load(kRelaxed);
  if (ended) progress.ended = mark(*ended);
  progress.begun = first ? mark(*first) : progress.ended;
  if (!progress.begun) return progress;
  const auto since = until - time_of(first ? first->call.asked : ended->call.asked);
  progress.since_begun = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(since), {});
  return progress;
}

TrainingProgress training_in(const Head& head) {
  using std::chrono::nanoseconds;
  TrainingProgress training{.total_steps = known(head.total_steps),
                            .epoch = known(head.epoch),
                            .saved_step = known(head.saved_step),
                            .samples = head.samples.load(kRelaxed),
                            .blocked = nanoseconds(head.blocked.load(kRelaxed)),
                            .doing = {},
                            .metrics = {},
                            .work_dir = ""};
  const auto doing = known(head.doing);
  if (doing && *doing >= 0 && *doing < std::ssize(kTimeParts)) training.doing = static_cast<TimePart>(*doing);
  for (std::size_t i = 0; i < kTimeParts.size(); ++i) training.times[i] = nanoseconds(head.times[i].load(kRelaxed));
  const auto metrics = std::min<std::uint64_t>(head.metrics.load(kAcquire), kMetrics);
  for (std::size_t i = 0; i < metrics; ++i) {
    const auto& metric = head.metric[i];
    training.metrics.push_back({text_in(metric.name), metric.step.load(kRelaxed), metric.value.load(kRelaxed)});
  }
  training.serves = head.serves.load(kRelaxed) != 0;
  if (head.has_work_dir.load(kAcquire) != 0) training.work_dir = text_in(head.work_dir);
  return training;
}

/// A copy of a page. The file is read, not mapped: a file that is too short then gives nothing instead of SIGBUS.
class PageCopy {
 public:
  explicit PageCopy(const std::filesystem::path& file) : page_(std::make_unique<Page>()) {
    const UniqueFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in) return;
    auto* const memory = reinterpret_cast<char*>(page_.get());
    std::size_t bytes = 0;
    while (bytes < sizeof(Page)) {
      const auto got = ::read(in.get(), memory + bytes, sizeof(Page) - bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      bytes += static_cast<std::size_t>(got);
    }
    if (bytes >= bytes_with(0) && page_->head.magic.load() == kMagic) {
      rings_ = std::min((bytes - offsetof(Page, rings)) / sizeof(Ring), page_->rings.size());
    }
  }

  explicit operator bool() const { return rings_ > 0; }
  const Page& page() const { return *page_; }
  std::uint64_t rings() const { return rings_; }

 private:
  std::unique_ptr<Page> page_;
  std::uint64_t rings_ = 0;
};

}  // namespace

void StatusPage::Unmap::operator()(Mapping* mapping) const noexcept {
  if (mapping->page != nullptr) ::munmap(mapping->page, sizeof(Page));
  delete mapping;
}

StatusPage StatusPage::open(const Environment& environment) noexcept {
  StatusPage status;
  try {
    std::unique_ptr<Mapping, Unmap> mapping(new Mapping);
    void* memory = nullptr;
    const auto path = find(environment, "LOCKSTEP_STATUS_FILE");
    if (path && !path->empty()) {
      mapping->file.reset(::open(path->c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      memory = map_file(mapping->file);
      if (memory == nullptr) log_debug("no status page: cannot make {}: {}", *path, std::strerror(errno));
    }
    if (memory == nullptr) {
      mapping->file.reset();
      memory = map_own_memory();
    }
    if (memory == nullptr) return status;
    mapping->page = static_cast<Page*>(memory);
    auto& head = mapping->page->head;
    // The next job of this process, or another one beside it, goes on with the same page.
    if (head.magic.load() != kMagic || head.process.load() != this_process()) {
      std::construct_at(&head);
      std::construct_at(&mapping->page->rings[0]);
      head.process.store(this_process());
      head.magic.store(kMagic, kRelease);
    }
    status.mapping_ = std::move(mapping);
  } catch (const std::exception&) {
    // A rank must not fail because of its status page (see the header).
  }
  return status;
}

std::uint8_t StatusPage::name_group(std::string_view name) noexcept {
  if (!mapping_) return 0;
  auto& page = *mapping_->page;
  const auto count = page.head.groups.load(kRelaxed);
  // A group of an earlier job of this process may have had the name.
  std::uint64_t index = 0;
  while (index < count && text_in(page.head.names.at(index)) != name.substr(0, kNameBytes - 1)) ++index;
  if (index >= kNamedGroups) return 0;
  if (mapping_->file && !make_room(mapping_->file, index + 1)) return 0;
  std::construct_at(&page.rings.at(index + 1));
  put(page.head.names.at(index), name);
  page.head.groups.store(std::max(count, index + 1), kRelease);
  return static_cast<std::uint8_t>(index + 1);
}

std::uint32_t StatusPage::name_place(std::string_view text) noexcept {
  if (!mapping_) return 0;
  try {
    const std::lock_guard lock(mapping_->mutex);
    text = text.substr(0, kPlaceBytes - 1);
    const auto found = mapping_->places.find(text);
    if (found != mapping_->places.end()) return found->second;
    auto& head = mapping_->page->head;
    const auto index = head.places.load(kRelaxed);
    if (index >= kPlaces) return 0;
    mapping_->places.emplace(text, static_cast<std::uint32_t>(index + 1));
    put(head.place.at(index), text);
    head.places.store(index + 1, kRelease);
    return static_cast<std::uint32_t>(index + 1);
  } catch (const std::exception&) {
    return 0;
  }
}

StatusPage::Record StatusPage::ask(std::uint8_t group, const Call& call, Time now) noexcept {
  if (!mapping_) return {};
  auto& page = *mapping_->page;
  auto& ring = page.rings[group];
  // Only the first ring has several writers; there, one of two calls at once may be lost.
  const auto index = ring.count.load(kRelaxed);
  Slot& slot = ring.slots[index % kRemembered];
  slot.mark.store(0, kRelaxed);  // seen by all who see one of the values below
  slot.asked.store(ticks(now), kRelease);
  slot.begun.store(kNone, kRelease);
  slot.completed.store(kNone, kRelease);
  slot.bytes.store(call.bytes, kRelease);
  slot.step.store(page.head.step.load(kRelaxed), kRelease);
  slot.place.store(call.place, kRelease);
  const Record record{&slot, mark_of(call)};
  slot.mark.store(record.mark, kRelease);
  ring.count.store(index + 1, kRelease);
  return record;
}

void StatusPage::begin(const Record& record, Time now) noexcept {
  if (record.slot != nullptr && record.slot->mark.load(kRelaxed) == record.mark) {
    record.slot->begun.store(ticks(now), kRelaxed);
  }
}

void StatusPage::complete(const Record& record, Time now) noexcept {
  if (record.slot != nullptr && record.slot->mark.load(kRelaxed) == record.mark) {
    record.slot->completed.store(ticks(now), kRelaxed);
  }
}

void StatusPage::name_rank(int rank) noexcept {
  auto unknown = kNone;
  if (mapping_) mapping_->page->head.rank.compare_exchange_strong(unknown, rank);
}

void StatusPage::complete_step(std::int64_t step) noexcept {
  if (mapping_) mapping_->page->head.step.store(step, kRelaxed);
}

void StatusPage::complete_backward() noexcept {
  if (mapping_) mapping_->page->head.backwards.fetch_add(1, kRelaxed);
}

void StatusPage::report(const TrainingProgress& training) noexcept {
  if (!mapping_) return;
  auto& head = mapping_->page->head;
  head.total_steps.store(training.total_steps.value_or(kNone), kRelaxed);
  head.epoch.store(training.epoch.value_or(kNone), kRelaxed);
  head.saved_step.store(training.saved_step.value_or(kNone), kRelaxed);
  head.samples.store(training.samples, kRelaxed);
  head.blocked.store(training.blocked.count(), kRelaxed);
  head.serves.store(training.serves ? 1 : 0, kRelaxed);
  head.doing.store(training.doing ? static_cast<std::int64_t>(*training.doing) : kNone, kRelaxed);
  for (std::size_t i = 0; i < kTimeParts.size(); ++i) head.times[i].store(training.times[i].count(), kRelaxed);
  const auto count = std::min(training.metrics.size(), kMetrics);
  const auto named = head.metrics.load(kRelaxed);
  for (std::size_t i = 0; i < count; ++i) {
    auto& metric = head.metric[i];
    if (i >= named) put(metric.name, training.metrics[i].name);  // a metric keeps its place
    metric.value.store(training.metrics[i].value, kRelaxed);
    metric.step.store(training.metrics[i].step, kRelaxed);
  }
  head.metrics.store(std::max<std::uint64_t>(count, named), kRelease);
  if (head.has_work_dir.load(kRelaxed) == 0 && !training.work_dir.empty()) {
    put(head.work_dir, training.work_dir);
    head.has_work_dir.store(1, kRelease);
  }
}

PageContent StatusPage::content(Time until) const {
  if (!mapping_) return {};
  return {progress_in(*mapping_->page, kNamedGroups + 1, until), training_in(mapping_->page->head)};
}

std::vector<GroupCalls> StatusPage::calls() const {
  return mapping_ ? calls_in(*mapping_->page, kNamedGroups + 1) : std::vector<GroupCalls>();
}

std::optional<RankProgress> read_status_page(const std::filesystem::path& file, StatusPage::Time until) {
  const PageCopy copy(file);
  return copy ? std::optional(progress_in(copy.page(), copy.rings(), until)) : std::nullopt;
}

std::optional<PageContent> read_page(const std::filesystem::path& file, StatusPage::Time until) {
  const PageCopy copy(file);
  if (!copy) return std::nullopt;
  return PageContent{progress_in(copy.page(), copy.rings(), until), training_in(copy.page().head)};
}

std::optional<RankCalls> read_calls(const std::filesystem::path& file, StatusPage::Time until) {
  const PageCopy copy(file);
  if (!copy) return std::nullopt;
  return RankCalls{static_cast<int>(copy.page().head.rank.load(kRelaxed)), calls_in(copy.page(), copy.rings()), until};
}

std::string describe(const RankProgress& progress) {
  const std::string step = describe_step(progress);
  const std::string collective = describe_collective(progress);
  return step + (step.empty() || collective.empty() ? "" : " and ") + collective;
}

bool same_place(const RankProgress& one, const RankProgress& other) { return place_of(one) == place_of(other); }

}  // namespace lockstep
