// Small data sets on disk, with contents that are easy to predict, and ways to spoil them.
#pragma once

#include <lockstep/data/pictures.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

using Bytes = std::vector<std::uint8_t>;

void write_bytes(const std::filesystem::path& path, const Bytes& bytes);
Bytes read_bytes(const std::filesystem::path& path);
Bytes gzip(const Bytes& bytes);

/// Root may read and write everything; the rest of this process is run by "nobody", if it was root.
void drop_root();

/// Pixel `k` of record `r` of file `f` in the folders below.
std::uint8_t pixel(int f, int r, int k);

/// A file of CIFAR-10 records; record r has label (f + r) % 10.
Bytes cifar10_file(int f, int records);

/// data_batch_1.bin (file 0) holds 1 record, data_batch_2.bin (file 1) 2, and so on; test_batch.bin (file 5) holds 6.
void write_cifar10(const std::filesystem::path& folder);

/// idx files: pictures of file `f`, and labels r % 10.
Bytes idx_pictures(int f, int count);
Bytes idx_labels(int count);

/// 7 train records (file 0) and 3 test records (file 1), plain.
void write_mnist(const std::filesystem::path& folder);

/// `count` records whose pixels are random bytes, all of the same shape, with labels r % 10.
std::shared_ptr<const data::Pictures> random_dataset(data::PictureShape shape, int count, std::uint64_t seed);

}  // namespace lockstep::test
