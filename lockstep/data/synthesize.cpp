// The writer of synthetic CIFAR-10 and MNIST files, whose labels are a random permutation of the classes in each block
// of ten records; files in a folder without its marker are never overwritten.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/data/format.h>
#include <lockstep/data/picture_sets.h>
#include <lockstep/data/sampler.h>
#include <lockstep/data/synthesize.h>

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::data {
namespace {

constexpr std::int64_t kMostRecords = 10'000'000;
constexpr std::uint64_t kLabelKey = 0;
constexpr std::string_view kMarker = "SYNTHETIC.txt";
constexpr std::string_view kClassNames =
    "disc\nring\nsquare\nframe\ntriangle\ncross\nsaltire\nlying\nstanding\nchecks\n";

/// The class of record `index`: each block of ten records holds every class once, in a random order.
int synthetic_label(std::uint64_t seed, Split split, std::int64_t index) {
  const auto block = static_cast<std::uint64_t>(index / 10);
  RandomStream random(seed, RandomPurpose::synthesize, {kLabelKey, static_cast<std::uint64_t>(split), block});
  std::array<int, 10> labels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (std::size_t i = labels.size() - 1; i > 0; --i) std::swap(labels[i], labels[random.below(i + 1)]);
  return labels[static_cast<std::size_t>(index % 10)];
}

struct Recipe {
  std::filesystem::path folder;
  std::int64_t train_count;
  std::int64_t test_count;
  std::uint64_t seed;

  std::int64_t count(Split split) const { return split == Split::train ? train_count : test_count; }
};

void write(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

void write_cifar10(const Recipe& recipe) {
  for (const Split split : {Split::train, Split::test}) {
    const auto files = cifar10_files(split);
    const auto file_count = static_cast<std::int64_t>(files.size());
    for (std::int64_t f = 0; f < file_count; ++f) {
      const std::int64_t first = recipe.count(split) * f / file_count;
      const std::int64_t last = recipe.count(split) * (f + 1) / file_count;
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(last - first) * kCifar10RecordBytes);
      for (std::int64_t i = first; i < last; ++i) {
        const auto record =
            std::span(bytes).subspan(static_cast<std::size_t>(i - first) * kCifar10RecordBytes, kCifar10RecordBytes);
        const int label = synthetic_label(recipe.seed, split, i);
        record[0] = static_cast<std::uint8_t>(label);
        draw_cifar10(recipe.seed, split, i, label, record.subspan(1));
      }
      write(recipe.folder / files[static_cast<std::size_t>(f)], bytes);
    }
  }
  write_file_atomically(recipe.folder / kCifar10ClassFile, kClassNames);
}

void append_big_endian(std::vector<std::uint8_t>& bytes, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

void write_mnist(const Recipe& recipe) {
  for (const Split split : {Split::train, Split::test}) {
    const auto count = static_cast<std::uint32_t>(recipe.count(split));
    std::vector<std::uint8_t> pictures;
    for (const std::uint32_t word : {kIdxPictures, count, 28U, 28U}) append_big_endian(pictures, word);
    std::vector<std::uint8_t> labels;
    for (const std::uint32_t word : {kIdxLabels, count}) append_big_endian(labels, word);

    const std::size_t header = pictures.size();
    const std::size_t picture = picture_size(kMnist.shape);
    pictures.resize(header + count * picture);
    for (std::size_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::int64_t>(i);
      const int label = synthetic_label(recipe.seed, split, index);
      labels.push_back(static_cast<std::uint8_t>(label));
      draw_mnist(recipe.seed, split, index, label, std::span(pictures).subspan(header + i * picture, picture));
    }
    write(recipe.folder / mnist_files(split).pictures, pictures);
    write(recipe.folder / mnist_files(split).labels, labels);
  }
}

void check_counts(const DatasetFormat& format, const Recipe& recipe) {
  const std::int64_t least =
      format.name == kCifar10.name ? static_cast<std::int64_t>(cifar10_files(Split::train).size()) : 1;
  for (const Split split : {Split::train, Split::test}) {
    const std::int64_t low = split == Split::train ? least : 1;
    if (low <= recipe.count(split) && recipe.count(split) <= kMostRecords) continue;
    fail(ErrorKind::invalid_argument, "synthesize", "the number of {} records is {}; for {} it must be {} to {}",
         name(split), recipe.count(split), format.name, low, kMostRecords);
  }
}

void prepare_folder(const DatasetFormat& format, const Recipe& recipe) {
  const std::filesystem::path& folder = recipe.folder;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) fail(ErrorKind::io, "synthesize", "cannot make the folder {}: {}", folder.string(), code.message());
  const bool made_here = std::filesystem::exists(folder / kMarker, code);
  for (const DatasetFormat& present : dataset_formats()) {
    if (!holds_files_of(present, folder) || (made_here && present.name == format.name)) continue;
    fail(ErrorKind::invalid_argument, "synthesize", "{} already holds {} files{}; choose another folder or remove them",
         folder.string(), present.name,
         made_here ? "" : fmt::format(", possibly real ones (there is no {} beside them)", kMarker));
  }
  write_file_atomically(
      folder / kMarker,
      fmt::format("The {} files in this folder are synthetic pictures made by Lockstep, not the real data "
                  "set.\ntrain {} test {} seed {}\n",
                  format.name, recipe.train_count, recipe.test_count, recipe.seed));
}

}  // namespace

void synthesize(std::string_view name, const std::filesystem::path& out_dir, std::int64_t train_count,
                std::int64_t test_count, std::uint64_t seed) {
  const DatasetFormat& format = find_format(name);
  const Recipe recipe{out_dir, train_count, test_count, seed};
  check_counts(format, recipe);
  prepare_folder(format, recipe);
  if (format.name == kCifar10.name) {
    write_cifar10(recipe);
  } else {
    write_mnist(recipe);
  }
}

}  // namespace lockstep::data
