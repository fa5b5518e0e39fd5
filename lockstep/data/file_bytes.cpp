// Whole files as bytes, with a look at the available memory first; and gzip with zlib: several members, a limit on the
// unpacked size, and exact reasons for damage.
#include <lockstep/base/available_memory.h>
#include <lockstep/data/file_bytes.h>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <system_error>

namespace lockstep::data {

std::optional<Bytes> read_file_bytes(const std::filesystem::path& file, int copies, Problems& problems) {
  const auto give_up = [&](std::string rule) {
    problems.push_back({file, -1, std::move(rule), ErrorKind::io});
    return std::nullopt;
  };
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (code) return give_up(fmt::format("cannot be accessed: {}", code.message()));
  if (!std::filesystem::is_regular_file(status)) return give_up("is not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(file, code);
  if (code) return give_up(fmt::format("cannot be accessed: {}", code.message()));

  if (const auto available = available_memory(); size > available / static_cast<std::uint64_t>(copies)) {
    problems.push_back(
        {file, -1,
         fmt::format("has {} bytes; reading it takes {} times that in memory, and {} bytes are available", size, copies,
                     available)});
    return std::nullopt;
  }

  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return give_up(fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  Bytes bytes(size);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!stream) {
    return give_up(fmt::format("reading stopped after {} of {} bytes: {}", stream.gcount(), size,
                               std::generic_category().message(errno)));
  }
  return bytes;
}

namespace {

constexpr std::size_t kFirstBuffer = std::size_t{1} << 20;
constexpr int kGzipOnly = MAX_WBITS + 16;  // zlib.h: 16 more window bits than the size mean "gzip, nothing else"
constexpr std::uint8_t kGzipMagic = 0x1f;

struct InflateEnd {
  void operator()(z_stream* stream) const noexcept { inflateEnd(stream); }
};

// zlib counts its input and output with 32 bits.
uInt piece(std::size_t size) { return static_cast<uInt>(std::min<std::size_t>(size, std::size_t{1} << 30)); }

using InflateStream = std::unique_ptr<z_stream, InflateEnd>;

// zlib's state points to the z_stream, which must not move.
InflateStream begin(z_stream& stream) {
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  return InflateStream(&stream);
}

// Decompresses into `unpacked`, whose first `filled` bytes are valid at the end. Returns the broken rule, empty on
// success.
std::string inflate_all(z_stream& stream, std::span<const std::uint8_t> compressed, std::size_t most, Bytes& unpacked,
                        std::size_t& filled) {
  const std::size_t largest_buffer = most + 1;  // so that an excess byte is detected
  filled = 0;
  std::size_t taken = 0;
  for (;;) {
    if (filled > most) return fmt::format("unpacks to more than the {} bytes that its header gives", most);
    if (filled == unpacked.size()) {
      unpacked.resize(std::min(std::max(unpacked.size() * 2, kFirstBuffer), largest_buffer));
    }
    const uInt offered = piece(compressed.size() - taken);
    const uInt room = piece(unpacked.size() - filled);
    // zlib does not write to its input, although its interface is not const.
    stream.next_in = const_cast<Bytef*>(compressed.data() + taken);
    stream.avail_in = offered;
    stream.next_out = unpacked.data() + filled;
    stream.avail_out = room;
    const int result = inflate(&stream, Z_NO_FLUSH);
    taken += offered - stream.avail_in;
    filled += room - stream.avail_out;

    if (result == Z_STREAM_END) {
      if (taken == compressed.size()) break;
      if (compressed[taken] != kGzipMagic) {
        return fmt::format("{} bytes follow the end of the gzip stream", compressed.size() - taken);
      }
      inflateReset(&stream);
    } else if (result == Z_BUF_ERROR || (result == Z_OK && taken == compressed.size() && stream.avail_out > 0)) {
      return fmt::format("the gzip stream is cut short: its {} bytes end before the end mark", compressed.size());
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK) {
      return fmt::format("the gzip stream is damaged before byte {} ({})", taken,
                         stream.msg != nullptr ? stream.msg : "no reason given");
    }
  }
  return {};
}

}  // namespace

Bytes gunzip_begin(std::span<const std::uint8_t> compressed, std::size_t most) {
  z_stream stream{};
  const InflateStream end = begin(stream);
  Bytes unpacked;
  std::size_t filled = 0;
  inflate_all(stream, compressed, most - 1, unpacked, filled);  // stops after `most` bytes; errors are ignored here
  unpacked.resize(filled);
  return unpacked;
}

std::optional<Bytes> gunzip(std::span<const std::uint8_t> compressed, std::size_t most,
                            const std::filesystem::path& file, Problems& problems) {
  z_stream stream{};
  const InflateStream end = begin(stream);
  Bytes unpacked;
  std::size_t filled = 0;
  const std::string broken = inflate_all(stream, compressed, most, unpacked, filled);
  unpacked.resize(filled);
  if (broken.empty()) return unpacked;
  problems.push_back({file, -1, broken});
  return std::nullopt;
}

}  // namespace lockstep::data
