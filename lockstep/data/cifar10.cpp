// A reader of CIFAR-10's binary files, which also recognizes the Python and Matlab versions for its error messages.
#include <lockstep/base/shown_text.h>
#include <lockstep/data/cifar10.h>
#include <lockstep/data/file_bytes.h>

#include <algorithm>
#include <array>

namespace lockstep::data {
namespace {

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
