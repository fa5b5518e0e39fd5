// The formats of two sets of small pictures.
//
// MNIST's idx layout (LeCun, Cortes, Burges): four files, plain or .gz. A file begins with big-endian 32-bit numbers: a
// magic number (0x803 for pictures, 0x801 for labels), the count and, for pictures, rows and columns; bytes follow.
//
// CIFAR-10's binary layout (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009): records of one
// label byte and 3 x 32 x 32 pixel bytes, nothing else. A file may hold any number of records.
#pragma once

#include <lockstep/data/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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

inline constexpr std::size_t kCifar10RecordBytes = 3073;
inline constexpr std::array<std::string_view, 6> kCifar10Files{"data_batch_1.bin", "data_batch_2.bin",
                                                               "data_batch_3.bin", "data_batch_4.bin",
                                                               "data_batch_5.bin", "test_batch.bin"};
inline constexpr std::string_view kCifar10ClassFile = "batches.meta.txt";

/// The files of a split, in the order of their records.
std::span<const std::string_view> cifar10_files(Split split);

SplitContents read_cifar10(const std::filesystem::path& root, Split split, Problems& problems);
bool is_cifar10_file_name(std::string_view file_name);
std::string cifar10_other_form(const std::filesystem::path& folder);

inline constexpr DatasetFormat kCifar10{.name = "cifar10",
                                        .doc = "colour pictures of 32x32 in ten classes, in the binary layout",
                                        .shape = {3, 32, 32},
                                        .num_classes = 10,
                                        .class_names = "airplane automobile bird cat deer dog frog horse ship truck",
                                        .folder_holds = "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                                        .read = read_cifar10,
                                        .is_file_name = is_cifar10_file_name,
                                        .other_form = cifar10_other_form};

}  // namespace lockstep::data
