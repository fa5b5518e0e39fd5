#include "train/pth/made_archive.h"

#include <zlib.h>

namespace lockstep::test {

std::string little_endian(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) {
    bytes += i < 8 ? static_cast<char>(value & 0xFFU) : '\0';
    value >>= 8U;
  }
  return bytes;
}

std::string text(std::string_view value) { return "X" + little_endian(value.size(), 4) + std::string(value); }

std::string number(std::int64_t value) { return "\x8a\x08" + little_endian(static_cast<std::uint64_t>(value), 8); }

std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string bytes = "(";
  for (const auto each : numbers) bytes += number(each);
  return bytes + "t";
}

std::string name_of(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string tensor(const MadeTensor& made) {
  const auto storage = "(" + text("storage") + name_of("torch", made.storage_class) + text(made.key) + text("cpu") +
                       number(made.elements) + "tQ";
  return name_of("torch._utils", "_rebuild_tensor_v2") + "(" + storage + number(made.offset) + tuple(made.sizes) +
         tuple(made.strides) + "\x89" + name_of("collections", "OrderedDict") + ")R" + made.more + "tR";
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += text(key) + value;
  return bytes + "u";
}

std::string pickle(std::string_view value) { return "\x80\x02" + std::string(value) + "."; }

std::string zip(const std::vector<MadeEntry>& entries) {
  std::string file;
  std::string directory;
  for (const auto& entry : entries) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), entry.bytes.size());
    const auto place = file.size() + static_cast<std::uint64_t>(entry.more_place);
    const auto size = entry.bytes.size() + static_cast<std::uint64_t>(entry.more_size);
    const auto kind = little_endian(entry.flags, 2) + little_endian(entry.method, 2) + little_endian(0, 4);
    const auto& name = entry.name_in_header.empty() ? entry.name : entry.name_in_header;
    // As torch.save does: the header's sizes are not filled in.
    file += "PK\x03\x04" + little_endian(0, 2) + kind + little_endian(0, 12) + little_endian(name.size(), 2) +
            little_endian(0, 2) + name + entry.bytes;
    const auto extra = entry.zip64 ? little_endian(0xCAFE, 2) + little_endian(1, 2) + "x" + little_endian(1, 2) +
                                         little_endian(24, 2) + little_endian(size, 8) + little_endian(size, 8) +
                                         little_endian(place, 8)
                                   : std::string();
    const auto short_size = little_endian(entry.zip64 ? 0xFFFFFFFF : size, 4);
    directory += "PK\x01\x02" + little_endian(0, 4) + kind + little_endian(crc, 4) + short_size + short_size +
                 little_endian(entry.name.size(), 2) + little_endian(extra.size(), 2) + little_endian(0, 10) +
                 little_endian(entry.zip64 ? 0xFFFFFFFF : place, 4) + entry.name + extra;
  }
  const auto begin = file.size();
  return file + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(directory.size(), 4) + little_endian(begin, 4) +
         little_endian(0, 2);
}

std::string archive(std::string_view pickled) {
  return zip(
      {{.name = "a/data.pkl", .bytes = std::string(pickled)}, {.name = "a/data/0", .bytes = std::string(24, '\0')}});
}

}  // namespace lockstep::test
