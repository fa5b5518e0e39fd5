// Readers of MNIST's IDX files, plain or gzipped, whose header is checked before the content is unpacked, and of
// CIFAR-10's binary files; messages of the latter recognize the Python and Matlab versions.
#include <lockstep/base/shown_text.h>
#include <lockstep/data/file_bytes.h>
#include <lockstep/data/picture_sets.h>

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

constexpr std::string_view kGetBinaryVersion =
    "only the binary version is read: unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html";

std::string size_rule(std::size_t size) {
  return fmt::format(
      "its {} bytes are not a multiple of {} (1 label + 3 x 32 x 32 pixels): {} bytes are left over after {} whole "
      "records",
      size, kCifar10RecordBytes, size % kCifar10RecordBytes, size / kCifar10RecordBytes);
}

void take_records(const std::filesystem::path& file, std::span<const std::uint8_t> bytes, SplitContents& contents,
                  Problems& problems) {
  const std::size_t records = bytes.size() / kCifar10RecordBytes;
  if (bytes.empty()) problems.push_back({file, -1, "is empty; it must hold at least one record"});
  if (const auto kind =
          kind_of_file({reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 8)});
      !kind.empty() && bytes.size() % kCifar10RecordBytes != 0) {
    problems.push_back({file, -1, fmt::format("is {}; {}", kind, kGetBinaryVersion)});
    return;
  }
  if (bytes.size() % kCifar10RecordBytes != 0) problems.push_back({file, -1, size_rule(bytes.size())});
  contents.pixels.reserve(contents.pixels.size() + records * (kCifar10RecordBytes - 1));
  for (std::size_t i = 0; i < records; ++i) {
    const auto record = bytes.subspan(i * kCifar10RecordBytes, kCifar10RecordBytes);
    const int label = record[0];
    if (label >= kCifar10.num_classes) {
      problems.push_back(
          {file, static_cast<std::int64_t>(i), fmt::format("its label is {}; labels are 0 to 9", label)});
    }
    contents.labels.push_back(record[0]);
    contents.pixels.insert(contents.pixels.end(), record.begin() + 1, record.end());
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

std::span<const std::string_view> cifar10_files(Split split) {
  const std::span all(kCifar10Files);
  return split == Split::train ? all.first(5) : all.last(1);
}

SplitContents read_cifar10(const std::filesystem::path& root, Split split, Problems& problems) {
  SplitContents contents;
  for (const std::string_view file_name : cifar10_files(split)) {
    const std::filesystem::path file = root / file_name;
    std::error_code code;
    if (!std::filesystem::exists(file, code) && !code) {
      problems.push_back(missing_file(kCifar10, file));
      continue;
    }
    if (const auto bytes = read_file_bytes(file, 2, problems)) take_records(file, *bytes, contents, problems);
  }
  return contents;
}

std::string cifar10_other_form(const std::filesystem::path& folder) {
  struct Form {
    std::string_view file;
    std::string_view name;
  };
  constexpr std::array<Form, 6> kForms = {{{"data_batch_1", "Python version"},
                                           {"cifar-10-batches-py/data_batch_1", "Python version"},
                                           {"cifar-10-python.tar.gz", "Python version, packed"},
                                           {"data_batch_1.mat", "Matlab version"},
                                           {"cifar-10-batches-mat/data_batch_1.mat", "Matlab version"},
                                           {"cifar-10-matlab.tar.gz", "Matlab version, packed"}}};
  std::error_code code;
  if (const auto packed = folder / "cifar-10-binary.tar.gz"; std::filesystem::exists(packed, code)) {
    return fmt::format("{} is not unpacked yet: tar -xf {} -C {}", packed.string(), packed.string(), folder.string());
  }
  for (const Form& form : kForms) {
    if (!std::filesystem::exists(folder / form.file, code)) continue;
    return fmt::format("{} is of CIFAR-10's {}; {}", (folder / form.file).string(), form.name, kGetBinaryVersion);
  }
  return {};
}

bool is_cifar10_file_name(std::string_view file_name) {
  return std::find(kCifar10Files.begin(), kCifar10Files.end(), file_name) != kCifar10Files.end();
}

}  // namespace lockstep::data
