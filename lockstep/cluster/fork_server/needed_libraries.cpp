#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/fork_server/needed_libraries.h>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::cluster {
namespace {

/// More than any program has; a file that says otherwise is none.
constexpr std::size_t kMostBytes = 64 << 20;

constexpr unsigned char kNativeClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  /// `count` objects at `offset`; fewer, or none, where the file ends.
  template <typename T>
  std::vector<T> read(std::uint64_t offset, std::size_t count) const {
    if (!fd_ || count > kMostBytes / sizeof(T)) return {};
    std::vector<T> values(count);
    const ssize_t size = ::pread(fd_.get(), values.data(), count * sizeof(T), static_cast<off_t>(offset));
    values.resize(size > 0 ? static_cast<std::size_t>(size) / sizeof(T) : 0);
    return values;
  }

 private:
  UniqueFd fd_;
};

std::vector<ElfW(Phdr)> segments_of(const ElfFile& file) {
  const auto headers = file.read<ElfW(Ehdr)>(0, 1);
  if (headers.empty()) return {};
  const auto& header = headers.front();
  const bool is_elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kNativeClass;
  const bool is_program = header.e_type == ET_EXEC || header.e_type == ET_DYN;
  if (!is_elf || !is_program || header.e_phentsize != sizeof(ElfW(Phdr))) return {};
  return file.read<ElfW(Phdr)>(header.e_phoff, header.e_phnum);
}

const ElfW(Phdr) * find_segment(const std::vector<ElfW(Phdr)>& segments, std::uint32_t type) {
  for (const auto& segment : segments) {
    if (segment.p_type == type) return &segment;
  }
  return nullptr;
}

/// Where in the file lies what is loaded at `address`.
std::optional<std::uint64_t> offset_of(const std::vector<ElfW(Phdr)>& segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    const bool holds =
        segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
    if (holds) return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

}  // namespace

std::set<std::string> needed_libraries(const std::filesystem::path& program) {
  const ElfFile file(program);
  const auto segments = segments_of(file);
  const auto* const dynamic = find_segment(segments, PT_DYNAMIC);
  if (dynamic == nullptr || find_segment(segments, PT_INTERP) == nullptr) return {};
  std::vector<std::uint64_t> name_offsets;
  std::uint64_t names_address = 0;
  std::size_t names_size = 0;
  for (const auto& entry : file.read<ElfW(Dyn)>(dynamic->p_offset, dynamic->p_filesz / sizeof(ElfW(Dyn)))) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) name_offsets.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) names_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) names_size = entry.d_un.d_val;
  }
  const auto names_at = offset_of(segments, names_address);
  if (!names_at) return {};
  const auto bytes = file.read<char>(*names_at, names_size);
  const std::string_view names(bytes.data(), bytes.size());
  std::set<std::string> libraries;
  for (const auto offset : name_offsets) {
    if (offset < names.size()) libraries.emplace(names.substr(offset, names.find('\0', offset) - offset));
  }
  return libraries;
}

}  // namespace lockstep::cluster
