// The disk cache of numbers computed from a file: a header of 512 bytes (source, purpose), little-endian numbers.
// One process computes them under an flock on the source, and the others poll.
// Also random access to lines of a mapped file: from the nearest of every 32nd line's offset by a scan for line ends.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/data/files/prepared_file.h>

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::data {
namespace {

static_assert(std::endian::native == std::endian::little, "prepared files hold numbers in little-endian order");

constexpr std::size_t kHeaderBytes = 512;
constexpr auto kLookAgain = std::chrono::milliseconds(20);
constexpr auto kTellAfter = std::chrono::seconds(2);

/// The first bytes of a prepared file: its source and its purpose.
std::string header_of(const std::filesystem::path& source, std::string_view purpose, std::size_t numbers) {
  struct stat status {};
  if (::stat(source.c_str(), &status) != 0) return {};
  const auto text = fmt::format("lockstep prepared 1\npurpose {}\nsource {} bytes {}.{:09}\nnumbers {}\n", purpose,
                                status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, numbers);
  std::string header(kHeaderBytes, '\n');
  text.copy(header.data(), kHeaderBytes);
  return header;
}

/// The content of the file, if it equals the result of such a `make`.
std::optional<MappedFile> open_valid(const std::filesystem::path& source, const std::filesystem::path& prepared,
                                     std::string_view purpose, std::string_view key) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(prepared, code)) return std::nullopt;
  MappedFile file(prepared, key);
  const auto bytes = file.bytes();
  if (bytes.size() < kHeaderBytes || (bytes.size() - kHeaderBytes) % sizeof(std::uint64_t) != 0) return std::nullopt;
  const auto header = header_of(source, purpose, (bytes.size() - kHeaderBytes) / sizeof(std::uint64_t));
  if (header.empty() || std::memcmp(header.data(), bytes.data(), kHeaderBytes) != 0) return std::nullopt;
  return file;
}

void write_numbers(const std::filesystem::path& prepared, const std::string& header,
                   const std::vector<std::uint64_t>& numbers, std::string_view key) {
  try {
    AtomicFile out(prepared);
    out.write(header);
    out.write(std::as_bytes(std::span(numbers)));
    out.commit();
  } catch (const Error& error) {
    throw Error(error.kind(), key,
                fmt::format("{}; what is computed from the data once is kept in this folder, give one that can be "
                            "written",
                            error.message()),
                error.position());
  }
}

}  // namespace

PreparedNumbers::PreparedNumbers(MappedFile file) : file_(std::move(file)) {}

std::span<const std::uint64_t> PreparedNumbers::numbers() const {
  const auto bytes = file_.bytes().subspan(kHeaderBytes);
  return {reinterpret_cast<const std::uint64_t*>(bytes.data()), bytes.size() / sizeof(std::uint64_t)};
}

PreparedNumbers prepare_numbers(const std::filesystem::path& source, const std::filesystem::path& prepared,
                                std::string_view purpose, std::string_view key,
                                const std::function<std::vector<std::uint64_t>()>& make) {
  const UniqueFd lock(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  const auto start = std::chrono::steady_clock::now();
  bool told = false;
  for (;;) {
    if (auto file = open_valid(source, prepared, purpose, key)) return PreparedNumbers(std::move(*file));
    // Where the file system has no locks, several processes make the same file, which is harmless.
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
    if (!told && std::chrono::steady_clock::now() - start > kTellAfter) {
      log_info("waiting for another process that computes {} from {}", prepared.string(), source.string());
      told = true;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  // Another process may have made the file before this one got the lock.
  if (auto file = open_valid(source, prepared, purpose, key)) return PreparedNumbers(std::move(*file));
  const auto before = header_of(source, purpose, 0);
  const auto numbers = make();
  if (header_of(source, purpose, 0) != before) {
    fail(ErrorKind::data, key, "{} was changed while it was read; start again when it is complete", source.string());
  }
  write_numbers(prepared, header_of(source, purpose, numbers.size()), numbers, key);
  if (auto file = open_valid(source, prepared, purpose, key)) return PreparedNumbers(std::move(*file));
  fail(ErrorKind::data, key, "{} was changed while it was read; start again when it is complete", source.string());
}

namespace {

constexpr std::int64_t kLinesApart = 32;

std::string_view bytes_as_text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::vector<std::uint64_t> index_lines(std::string_view text) {
  std::vector<std::uint64_t> index{0};
  std::uint64_t lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    if (lines % kLinesApart == 0) index.push_back(begin);
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  }
  index.front() = lines;
  return index;
}

}  // namespace

LineFile::LineFile(const std::filesystem::path& file, std::string_view key, const std::filesystem::path& cache,
                   std::string_view cache_key)
    : file_(file, key),
      index_(prepare_numbers(file, cache / (file.filename().string() + ".lines"), "lines, every 32nd", cache_key,
                             [this] { return index_lines(text()); })),
      lines_(static_cast<std::int64_t>(index_.numbers().front())) {}

std::string_view LineFile::text() const { return bytes_as_text(file_); }

std::string_view LineFile::line(std::int64_t index) const {
  const auto whole = text();
  auto begin = static_cast<std::size_t>(index_.numbers()[static_cast<std::size_t>(1 + index / kLinesApart)]);
  for (auto skipped = index % kLinesApart; skipped > 0; --skipped) begin = whole.find('\n', begin) + 1;
  return whole.substr(begin, std::min(whole.find('\n', begin), whole.size()) - begin);
}

}  // namespace lockstep::data
