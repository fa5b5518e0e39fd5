#include "state/pth/made_archive.h"

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

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string bytes;
  for (const auto part : parts) bytes.append(part);
  return bytes;
}

std::string text(std::string_view value) { return joined({"X", little_endian(value.size(), 4), value}); }

std::string number(std::int64_t value) {
  return joined({"\x8a\x08", little_endian(static_cast<std::uint64_t>(value), 8)});
}

std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string bytes = "(";
  for (const auto each : numbers) bytes.append(number(each));
  bytes.append("t");
  return bytes;
}

std::string name_of(std::string_view module, std::string_view name) { return joined({"c", module, "\n", name, "\n"}); }

std::string tensor(const MadeTensor& made) {
  const auto storage = joined({"(", text("storage"), name_of("torch", made.storage_class), text(made.key), text("cpu"),
                               number(made.elements), "tQ"});
  return joined({name_of("torch._utils", "_rebuild_tensor_v2"), "(", storage, number(made.offset), tuple(made.sizes),
                 tuple(made.strides), "\x89", name_of("collections", "OrderedDict"), ")R", made.more, "tR"});
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes.append(text(key)).append(value);
  bytes.append("u");
  return bytes;
}

std::string pickle(std::string_view value) { return joined({"\x80\x02", value, "."}); }

std::string zip(const std::vector<MadeEntry>& entries) {
  std::string file;
  std::string directory;
  for (const auto& entry : entries) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), entry.bytes.size());
    const auto place = little_endian(file.size() + static_cast<std::uint64_t>(entry.more_place), 8);
    const auto size = little_endian(entry.bytes.size() + static_cast<std::uint64_t>(entry.more_size), 8);
    const auto kind = joined({little_endian(entry.flags, 2), little_endian(entry.method, 2), little_endian(0, 4)});
    const auto& name = entry.name_in_header.empty() ? entry.name : entry.name_in_header;
    // As torch.save does: the header's sizes are not filled in.
    file += joined({"PK\x03\x04", little_endian(0, 2), kind, little_endian(0, 12), little_endian(name.size(), 2),
                    little_endian(0, 2), name, entry.bytes});
    std::string extra;
    if (entry.zip64) {
      extra = joined({little_endian(0xCAFE, 2), little_endian(1, 2), "x", little_endian(1, 2), little_endian(24, 2),
                      size, size, place});
    }
    const auto in_32_bits = [&](const std::string& value) {
      return entry.zip64 ? little_endian(0xFFFFFFFF, 4) : value.substr(0, 4);
    };
    directory += joined({"PK\x01\x02", little_endian(0, 4), kind, little_endian(crc, 4), in_32_bits(size),
                         in_32_bits(size), little_endian(entry.name.size(), 2), little_endian(extra.size(), 2),
                         little_endian(0, 10), in_32_bits(place), entry.name, extra});
  }
  return joined({file, directory, end_record(entries.size(), directory.size(), file.size())});
}

std::string end_record(std::uint64_t entries, std::uint64_t size, std::uint64_t begin) {
  return joined({"PK\x05\x06", little_endian(0, 4), little_endian(entries, 2), little_endian(entries, 2),
                 little_endian(size, 4), little_endian(begin, 4), little_endian(0, 2)});
}

std::string archive(std::string_view pickled) {
  return zip(
      {{.name = "a/data.pkl", .bytes = std::string(pickled)}, {.name = "a/data/0", .bytes = std::string(24, '\0')}});
}

}  // namespace lockstep::test
