// CIFAR-10's binary layout (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009): records of one
// label byte and 3 x 32 x 32 pixel bytes, nothing else. A file may hold any number of records.
#pragma once

#include <lockstep/data/format.h>

#include <array>
#include <cstddef>
#include <span>

namespace lockstep::data {

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
