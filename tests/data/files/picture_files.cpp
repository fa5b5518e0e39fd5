#include "data/files/picture_files.h"

#include <gtest/gtest.h>
#include <png.h>
#include <tiffio.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <lockstep/base/files.h>
#include <lockstep/base/temporary_folder.h>

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

std::string webp_of(const std::vector<std::uint8_t>& rgb, int width, int height) {
  std::uint8_t* out = nullptr;
  const auto size = WebPEncodeLosslessRGB(rgb.data(), width, height, 3 * width, &out);
  std::string bytes(reinterpret_cast<char*>(out), size);
  WebPFree(out);
  return bytes;
}

std::string bmp_of(const std::vector<std::uint8_t>& rgb, int width, int height) {
  const auto number = [](std::size_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  const auto w = static_cast<std::size_t>(width), h = static_cast<std::size_t>(height);
  const auto row_bytes = (3 * w + 3) / 4 * 4;
  auto bmp = "BM" + number(54 + row_bytes * h, 4) + number(0, 4) + number(54, 4) + number(40, 4) + number(w, 4) +
             number(h, 4) + number(1, 2) + number(24, 2) + std::string(24, '\0');
  for (std::size_t y = h; y-- > 0;) {
    for (std::size_t x = 0; x < w; ++x) {
      for (std::size_t c = 3; c-- > 0;) bmp += static_cast<char>(rgb[(y * w + x) * 3 + c]);
    }
    bmp.append(row_bytes - 3 * w, '\0');
  }
  return bmp;
}

std::string tiff_of(const std::vector<std::uint8_t>& samples, int width, int height, const TiffForm& form) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "it.tif").string();
  const auto channels = static_cast<int>(samples.size()) * 8 / form.bits / (width * height);
  TIFF* tiff = TIFFOpen(path.c_str(), "w");
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, form.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, channels);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, channels == 1 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB);
  if (channels == 4) TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &form.alpha);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, form.separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, form.compression);
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, form.orientation);
  const auto sample = [&](int x, int y, int c) {
    const bool inside = x < width && y < height;
    return inside ? samples[static_cast<std::size_t>((y * width + x) * channels + c)] : std::uint8_t{0};
  };
  if (form.tile > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, form.tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, form.tile);
    for (int top = 0; top < height; top += form.tile) {
      for (int left = 0; left < width; left += form.tile) {
        std::vector<std::uint8_t> tile;
        for (int y = top; y < top + form.tile; ++y) {
          for (int x = left; x < left + form.tile; ++x) {
            for (int c = 0; c < channels; ++c) tile.push_back(sample(x, y, c));
          }
        }
        EXPECT_GE(
            TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(top), 0, 0),
            0);
      }
    }
  } else if (form.separate) {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 8);
    for (int c = 0; c < channels; ++c) {
      for (int y = 0; y < height; ++y) {
        std::vector<std::uint8_t> row;
        for (int x = 0; x < width; ++x) row.push_back(sample(x, y, c));
        EXPECT_EQ(TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), static_cast<std::uint16_t>(c)), 1);
      }
    }
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 8);
    const auto row_bytes = samples.size() / static_cast<std::size_t>(height);
    for (int y = 0; y < height; ++y) {
      auto* row = const_cast<std::uint8_t*>(&samples[row_bytes * static_cast<std::size_t>(y)]);
      EXPECT_EQ(TIFFWriteScanline(tiff, row, static_cast<std::uint32_t>(y), 0), 1);
    }
  }
  TIFFClose(tiff);
  return lockstep::read_file(path).value_or("");
}

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace lockstep::test
