// Random access to lines of a mapped file: from the nearest of every 32nd line's offset by a scan for line ends.
#include <lockstep/data/files/line_file.h>

#include <algorithm>
#include <vector>

namespace lockstep::data {
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
