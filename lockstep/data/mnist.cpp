// A reader of MNIST's IDX files, plain or gzipped: the header is checked before the content is unpacked.
#include <lockstep/data/file_bytes.h>
#include <lockstep/data/mnist.h>

#include <algorithm>
#include <array>
#include <optional>

namespace lockstep::data {
namespace {

// The format of one file: its magic number and the size of one item in bytes.
struct IdxKind {
  std::uint32_t magic;
  std::size_t header_bytes;
  std::size_t item_bytes;
  std::string_view items;
};
constexpr IdxKind kPictures{kIdxPictures, 16, std::size_t{28} * 28, "pictures of 28 x 28"};
constexpr IdxKind kLabels{kIdxLabels, 8, 1, "labels"};

struct IdxFile {
  std::filesystem::path path;
  Bytes items;  // without the header
  std::size_t count = 0;
};

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::array<std::string, 4> spellings(std::string_view plain) {
  std::string dotted(plain);
  dotted[dotted.rfind("-idx")] = '.';
  return {std::string(plain), dotted, std::string(plain) + ".gz", dotted + ".gz"};
}

std::filesystem::path find_file(const std::filesystem::path& root, std::string_view plain) {
  for (const std::string& spelling : spellings(plain)) {
    std::error_code code;
    if (std::filesystem::exists(root / spelling, code) || code) return root / spelling;
  }
  return {};
}

// The size of the file according to its header, in bytes.
std::size_t right_size(std::span<const std::uint8_t> bytes, const IdxKind& kind) {
  return kind.header_bytes + big_endian(bytes.subspan(4)) * kind.item_bytes;
}

// The rule that the header in `bytes` breaks; empty when it is valid.
std::string broken_header(std::span<const std::uint8_t> bytes, const IdxKind& kind) {
  if (bytes.size() < kind.header_bytes) {
    return fmt::format("its {} bytes are fewer than the {} of an idx header", bytes.size(), kind.header_bytes);
  }
  if (big_endian(bytes) != kind.magic) {
    return fmt::format("it begins with 0x{:08x}; idx {} begin with 0x{:08x}", big_endian(bytes), kind.items,
                       kind.magic);
  }
  if (kind.magic == kIdxPictures && (big_endian(bytes.subspan(8)) != 28 || big_endian(bytes.subspan(12)) != 28)) {
    return fmt::format("its header gives pictures of {} x {}; MNIST's are 28 x 28", big_endian(bytes.subspan(8)),
                       big_endian(bytes.subspan(12)));
  }
  return big_endian(bytes.subspan(4)) == 0 ? "its header gives a count of 0" : "";
}

// The rule that a whole file breaks; empty when it is valid.
std::string broken_rule(std::span<const std::uint8_t> bytes, const IdxKind& kind) {
  if (std::string rule = broken_header(bytes, kind); !rule.empty()) return rule;
  const std::size_t right = right_size(bytes, kind);
  if (bytes.size() == right) return {};
  const bool too_long = bytes.size() > right;
  return fmt::format("its header gives {} {}, which take {} bytes, but there are {}: {} bytes {}",
                     big_endian(bytes.subspan(4)), kind.items, right, bytes.size(),
                     too_long ? bytes.size() - right : right - bytes.size(),
                     too_long ? "are left over" : "are missing");
}

// Decompresses a file. The header is read first: its size limits the memory, independent of the compressed stream.
std::optional<Bytes> unpack(std::span<const std::uint8_t> packed, const IdxKind& kind,
                            const std::filesystem::path& file, Problems& problems) {
  const Bytes begin = gunzip_begin(packed, kind.header_bytes);
  if (begin.size() < kind.header_bytes) return gunzip(packed, kind.header_bytes, file, problems);
  if (std::string rule = broken_header(begin, kind); !rule.empty()) {
    problems.push_back({file, -1, std::move(rule)});
    return std::nullopt;
  }
  return gunzip(packed, right_size(begin, kind), file, problems);
}

std::optional<IdxFile> read_idx(const std::filesystem::path& root, std::string_view plain, const IdxKind& kind,
                                Problems& problems) {
  IdxFile file{.path = find_file(root, plain), .items = {}};
  if (file.path.empty()) {
    problems.push_back(missing_file(kMnist, root / plain));
    return std::nullopt;
  }
  auto bytes = read_file_bytes(file.path, 1, problems);
  if (bytes && file.path.extension() == ".gz") bytes = unpack(*bytes, kind, file.path, problems);
  if (!bytes) return std::nullopt;
  if (std::string rule = broken_rule(*bytes, kind); !rule.empty()) {
    problems.push_back({file.path, -1, std::move(rule)});
    return std::nullopt;
  }
  file.items = std::move(*bytes);
  file.items.erase(file.items.begin(), file.items.begin() + static_cast<std::ptrdiff_t>(kind.header_bytes));
  file.count = file.items.size() / kind.item_bytes;
  return file;
}

void check_labels(const IdxFile& file, Problems& problems) {
  for (std::size_t i = 0; i < file.count; ++i) {
    if (file.items[i] < kMnist.num_classes) continue;
    problems.push_back(
        {file.path, static_cast<std::int64_t>(i), fmt::format("its label is {}; labels are 0 to 9", file.items[i])});
  }
}

}  // namespace

MnistFiles mnist_files(Split split) {
  if (split == Split::train) return {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
  return {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
}

SplitContents read_mnist(const std::filesystem::path& root, Split split, Problems& problems) {
  const MnistFiles names = mnist_files(split);
  auto pictures = read_idx(root, names.pictures, kPictures, problems);
  auto labels = read_idx(root, names.labels, kLabels, problems);
  if (labels) check_labels(*labels, problems);
  if (pictures && labels && pictures->count != labels->count) {
    problems.push_back({labels->path, -1,
                        fmt::format("it holds {} labels, but {} holds {} pictures", labels->count,
                                    pictures->path.filename().string(), pictures->count)});
  }
  SplitContents contents;
  if (pictures) contents.pixels = std::move(pictures->items);
  if (labels) contents.labels = std::move(labels->items);
  return contents;
}

bool is_mnist_file_name(std::string_view file_name) {
  for (const Split split : {Split::train, Split::test}) {
    for (const std::string_view plain : {mnist_files(split).pictures, mnist_files(split).labels}) {
      const auto names = spellings(plain);
      if (std::find(names.begin(), names.end(), file_name) != names.end()) return true;
    }
  }
  return false;
}

}  // namespace lockstep::data
