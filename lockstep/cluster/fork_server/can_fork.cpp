// Conditions for forked ranks: a program linked against Lockstep (by its ELF file), no setuid, equal arguments.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/fork_server/can_fork.h>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::cluster {
namespace {

constexpr const char* kVariable = "LOCKSTEP_START_METHOD";

StartMethod method_of(const LaunchOptions& options) {
  if (options.start_method != StartMethod::automatic) return options.start_method;
  const std::string value = find(options.environment, kVariable).value_or("");
  if (value.empty()) return StartMethod::automatic;
  if (value == "spawn") return StartMethod::spawn;
  if (value == "fork" || value == "forkserver") return StartMethod::fork_server;
  fail(ErrorKind::environment, "launch",
       "{}='{}' must be forkserver (a program of Lockstep's is loaded once, and its ranks are forked) or spawn (each "
       "rank is started by itself)",
       kVariable, cut_text(value));
}

/// Whether the kernel starts this program with other rights than its parent's. Such a program must not get secrets.
bool has_rights_of_its_own(const std::string& program) {
  struct stat info {};
  if (::stat(program.c_str(), &info) != 0) return true;
  return (info.st_mode & (S_ISUID | S_ISGID)) != 0 ||
         ::getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
}

std::optional<std::string> find_file(const std::string& name, const Environment& environment) {
  try {
    return detail::find_program(name, environment);
  } catch (const Error&) {
    return std::nullopt;  // the code that starts it reports the error
  }
}

/// The limit for headers and names: more than any program has, so a file with larger values is not a program.
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

/// The offset in the file of the data loaded at `address`.
std::optional<std::uint64_t> offset_of(const std::vector<ElfW(Phdr)>& segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    const bool holds =
        segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
    if (holds) return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

/// The names in a program's dynamic section, for the dynamic loader.
struct DynamicNames {
  std::set<std::string> libraries;  ///< DT_NEEDED
  std::string all;                  ///< with the symbols, each followed by a NUL
};

DynamicNames dynamic_names_of(const std::filesystem::path& program) {
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
  DynamicNames names{{}, std::string(bytes.begin(), bytes.end())};
  for (const auto offset : name_offsets) {
    if (offset < names.all.size()) names.libraries.emplace(names.all.c_str() + offset);
  }
  return names;
}

}  // namespace

std::optional<std::string> obstacle_to_forking(const LaunchOptions& options) {
  if (method_of(options) == StartMethod::spawn) return "spawn was requested";
  const auto command = command_of_rank(options.program, 0, options.environment);
  for (int rank = 1; rank < options.processes; ++rank) {
    if (command_of_rank(options.program, rank, options.environment) != command) return "the ranks' arguments differ";
  }
  const auto program = find_file(command.front(), options.environment);
  if (!program) return fmt::format("there is no program {}", command.front());
  if (!needed_libraries(*program).contains(LOCKSTEP_LIBRARY)) {
    return fmt::format("{} is not linked against {}", *program, LOCKSTEP_LIBRARY);
  }
  if (has_rights_of_its_own(*program)) return fmt::format("{} runs with other rights than its caller", *program);
  return std::nullopt;
}

bool may_need_c10d_store(const LaunchOptions& options) {
  const auto program = find_file(command_of_rank(options.program, 0, options.environment).front(), options.environment);
  const auto names = program ? dynamic_names_of(*program) : DynamicNames();
  return !names.libraries.contains(LOCKSTEP_LIBRARY) || names.all.find("c10d8TCPStoreC") != std::string::npos;
}

std::set<std::string> needed_libraries(const std::filesystem::path& program) {
  return dynamic_names_of(program).libraries;
}

}  // namespace lockstep::cluster
