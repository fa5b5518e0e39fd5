// The choice of a decoder by the first bytes, then conversion to grey and the turn by EXIF orientation.
// Also guesses why a listed file is missing: other separators of folders, and similar names beside it.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/data/files/picture_formats.h>
#include <lockstep/data/pictures.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::string_view kJpeg = "\xff\xd8\xff", kPng = "\x89PNG\r\n\x1a\n";

constexpr std::array<std::string_view, 7> kEndings = {"jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff"};

std::string found_instead(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return "it is empty";
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
  if (begin.starts_with("GIF8")) return "it is a GIF";
  const auto kind = kind_of_file(begin);
  return kind.empty() ? "its first bytes are of none of them" : fmt::format("it is {}", kind);
}

bool is_webp(std::string_view begin) {
  return begin.starts_with("RIFF") && begin.size() >= 12 && begin.substr(8, 4) == "WEBP";
}

/// The last two belong to files that may be larger than 4 GiB.
bool is_tiff(std::string_view begin) {
  using namespace std::string_view_literals;
  for (const auto mark : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv}) {
    if (begin.starts_with(mark)) return true;
  }
  return false;
}

// Rounds like PIL and OpenCV: weights are multiples of 2^-16.
void to_grey(Picture& picture) {
  auto out = picture.pixels.begin();
  for (std::size_t i = 0; i + 2 < picture.pixels.size(); i += 3) {
    const std::uint32_t sum =
        19595u * picture.pixels[i] + 38470u * picture.pixels[i + 1] + 7471u * picture.pixels[i + 2];
    *out++ = static_cast<std::uint8_t>((sum + 0x8000u) >> 16);
  }
  picture.pixels.erase(out, picture.pixels.end());
  picture.channels = 1;
}

}  // namespace

void require_picture_size(std::int64_t width, std::int64_t height, std::int64_t most, std::string_view name) {
  if (width > 0 && height > 0 && width <= most / height) return;
  fail(ErrorKind::data, "picture",
       "{} has {} x {} pixels by its header; from 1 to {} in all are read; a data set's max_pixels is the limit", name,
       width, height, most);
}

void require_bytes_for(std::uint64_t pixel_bytes, std::uint64_t most, std::size_t file_bytes, std::string_view format,
                       std::string_view name) {
  if (pixel_bytes / most <= file_bytes) return;
  fail(ErrorKind::data, "picture", "{} is a damaged {}: its {} bytes are too few for the {} of its pixels", name,
       format, file_bytes, pixel_bytes);
}

std::uint32_t little_endian(std::span<const std::uint8_t> file, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | (at + i < file.size() ? file[at + i] : 0u);
  return value;
}

Picture decode_picture(std::span<const std::uint8_t> encoded, const DecodeOptions& options, std::string_view name) {
  int orientation = 1;
  Picture picture;
  const std::string_view begin(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  if (begin.starts_with(kJpeg)) {
    picture = decode_jpeg(encoded, options, name);
    orientation = jpeg_orientation(encoded);
  } else if (begin.starts_with(kPng)) {
    picture = decode_png(encoded, options, name, orientation);
  } else if (is_webp(begin)) {
    picture = decode_webp(encoded, options, name, orientation);
  } else if (is_tiff(begin)) {
    picture = decode_tiff(encoded, options, name, orientation);
  } else if (begin.starts_with("BM")) {
    picture = decode_bmp(encoded, options, name);
  } else {
    fail(ErrorKind::data, "picture", "{} is no JPEG, PNG, WebP, BMP or TIFF: {}", name, found_instead(encoded));
  }
  if (options.channels == 1) to_grey(picture);
  return turned(std::move(picture), options.orientation ? orientation : 1);
}

Picture read_picture(const std::string& file, const DecodeOptions& options) {
  // The system would cut the name at the zero byte and open another file.
  if (file.find('\0') != std::string::npos)
    fail(ErrorKind::data, "picture", "cannot read {}: its name has a byte 0", file);
  errno = 0;
  const auto bytes = read_file(file);
  if (!bytes) {
    const auto why = errno;
    fail(ErrorKind::data, "picture", "cannot read {}: {}{}", file,
         why == 0 ? "it is no file" : std::generic_category().message(why),
         why == ENOENT ? advice_on_missing(file) : "");
  }
  return decode_picture({reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()}, options, file);
}

bool has_picture_name(std::string_view file) {
  const auto dot = file.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(file.substr(dot + 1));
  for (char& letter : ending) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string picture_endings() { return fmt::format(".{}", fmt::join(kEndings, ", .")); }

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code failed;
  return fs::exists(file, failed);
}

bool equal_but_for_case(std::string_view one, std::string_view other) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(one, other, [&](char a, char b) { return small(a) == small(b); });
}

}  // namespace

std::string advice_on_missing(const fs::path& file) {
  constexpr int kMostFiles = 10'000;
  const auto text = file.string();
  if (text.find('\\') != std::string::npos) {
    auto slashes = text;
    std::ranges::replace(slashes, '\\', '/');
    return fmt::format("; \\ does not separate folders here{}: write / in its place",
                       is_there(slashes) ? ", and with / the file is there" : "");
  }
  if (text.ends_with(' ') || text.ends_with('\r')) return "; the name ends with a blank or a carriage return";
  const auto name = file.filename().string();
  std::error_code failed;
  int seen = 0;
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (++seen > kMostFiles) break;
    const auto other = entry->path().filename().string();
    if (equal_but_for_case(name, other)) return fmt::format("; the folder has '{}'", cut_text(other, 200));
    if (!differ_by_accents(name, other)) continue;
    return fmt::format(
        "; the folder has '{}', whose accents are written in another way (one composed character, or a "
        "letter and a mark, as macOS does): write both in one way, for example with 'convmv --nfc'",
        cut_text(other, 200));
  }
  return "";
}

}  // namespace lockstep::data
