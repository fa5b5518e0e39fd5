#include "data/data_files.h"

#include <gtest/gtest.h>
#include <lockstep/data/format.h>
#include <lockstep/data/sampler.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <iterator>

namespace lockstep::test {
namespace {

void append_big_endian(Bytes& bytes, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

}  // namespace

void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void drop_root() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() != 0) return;
  ASSERT_EQ(::seteuid(kNobody), 0) << "cannot drop root";
}

std::uint8_t pixel(int f, int r, int k) { return static_cast<std::uint8_t>((f * 31 + r * 7 + k * 3) % 251); }

Bytes cifar10_file(int f, int records) {
  Bytes bytes;
  for (int r = 0; r < records; ++r) {
    bytes.push_back(static_cast<std::uint8_t>((f + r) % 10));
    for (int k = 0; k < 3072; ++k) bytes.push_back(pixel(f, r, k));
  }
  return bytes;
}

void write_cifar10(const std::filesystem::path& folder) {
  for (int f = 0; f < 5; ++f) {
    write_bytes(folder / ("data_batch_" + std::to_string(f + 1) + ".bin"), cifar10_file(f, f + 1));
  }
  write_bytes(folder / "test_batch.bin", cifar10_file(5, 6));
}

Bytes idx_pictures(int f, int count) {
  Bytes bytes;
  for (const std::uint32_t word : {0x803U, static_cast<std::uint32_t>(count), 28U, 28U}) append_big_endian(bytes, word);
  for (int r = 0; r < count; ++r) {
    for (int k = 0; k < 28 * 28; ++k) bytes.push_back(pixel(f, r, k));
  }
  return bytes;
}

Bytes idx_labels(int count) {
  Bytes bytes;
  for (const std::uint32_t word : {0x801U, static_cast<std::uint32_t>(count)}) append_big_endian(bytes, word);
  for (int r = 0; r < count; ++r) bytes.push_back(static_cast<std::uint8_t>(r % 10));
  return bytes;
}

void write_mnist(const std::filesystem::path& folder) {
  write_bytes(folder / "train-images-idx3-ubyte", idx_pictures(0, 7));
  write_bytes(folder / "train-labels-idx1-ubyte", idx_labels(7));
  write_bytes(folder / "t10k-images-idx3-ubyte", idx_pictures(1, 3));
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx_labels(3));
}

std::shared_ptr<const data::Pictures> random_dataset(data::PictureShape shape, int count, std::uint64_t seed) {
  data::RandomStream random(seed, data::RandomPurpose::synthesize, {99});
  data::SplitContents contents;
  for (int r = 0; r < count; ++r) contents.labels.push_back(static_cast<std::uint8_t>(r % 10));
  contents.pixels.resize(data::picture_size(shape) * static_cast<std::size_t>(count));
  for (auto& value : contents.pixels) value = static_cast<std::uint8_t>(random.next());
  return data::make_memory_pictures(shape, 10, std::move(contents));
}

}  // namespace lockstep::test
