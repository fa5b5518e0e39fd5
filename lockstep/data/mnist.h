// MNIST's idx layout (LeCun, Cortes, Burges): four files, plain or .gz. A file begins with big-endian 32-bit numbers: a
// magic number (0x803 for pictures, 0x801 for labels), the count and, for pictures, rows and columns; bytes follow.
#pragma once

#include <lockstep/data/format.h>

#include <cstdint>
#include <string_view>

namespace lockstep::data {

inline constexpr std::uint32_t kIdxPictures = 0x803;
inline constexpr std::uint32_t kIdxLabels = 0x801;

/// The plain names of the two files of a split; a '.' may stand for the '-' before "idx", and ".gz" may follow.
struct MnistFiles {
  std::string_view pictures;
  std::string_view labels;
};
MnistFiles mnist_files(Split split);

SplitContents read_mnist(const std::filesystem::path& root, Split split, Problems& problems);
bool is_mnist_file_name(std::string_view file_name);

inline constexpr DatasetFormat kMnist{
    .name = "mnist",
    .doc = "handwritten digits of 28x28 in grey",
    .shape = {1, 28, 28},
    .num_classes = 10,
    .folder_holds =
        "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, "
        "each plain or with .gz",
    .read = read_mnist,
    .is_file_name = is_mnist_file_name,
    .other_form = nullptr};

}  // namespace lockstep::data
