#include "data/files/picture_files.h"

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <fstream>

namespace lockstep::test {

std::vector<std::uint8_t> pattern(int width, int height, int shade) {
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {shade + 2 * x, shade + 3 * y, 255 - shade})
        rgb.push_back(static_cast<std::uint8_t>(value));
    }
  }
  return rgb;
}

namespace {

std::string jpeg_with(const std::vector<std::uint8_t>& rgb, int width, int height, int flags) {
  const auto handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, rgb.data(), width, 0, height, TJPF_RGB, &out, &size, TJSAMP_444, 95, flags), 0);
  std::string bytes(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(handle);
  return bytes;
}

}  // namespace

std::string jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height) {
  return jpeg_with(rgb, width, height, 0);
}

std::string progressive_jpeg_of(const std::vector<std::uint8_t>& rgb, int width, int height) {
  return jpeg_with(rgb, width, height, TJFLAG_PROGRESSIVE);
}

std::string png_of(const std::vector<std::uint8_t>& rgb, int width, int height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, rgb.data(), 0, nullptr), 0);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), 0, nullptr), 0);
  bytes.resize(size);
  return bytes;
}

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace lockstep::test
