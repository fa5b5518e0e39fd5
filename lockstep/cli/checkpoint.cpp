// `lockstep checkpoint`: shows checkpoints, merges sharded ones into one file, and reshards them.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/command.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/state/sharded/rewrite.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/checkpoint/run_state.h>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {
namespace {

using state::MeshShape;
using state::PlacementRule;
using state::ShardedIndex;

std::vector<std::string> parts_between(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string bytes_in_words(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  if (bytes < kMiB) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB);
}

void print_tensors(const ShardedIndex& index) {
  std::size_t longest = 4;
  for (const auto& [name, tensor] : index.tensors) longest = std::max(longest, name.size());
  fmt::print("{:<{}}  {:<5} {:<20} {:<30} {}\n", "name", longest, "dtype", "shape", "placements", "shards");
  for (const auto& [name, tensor] : index.tensors) {
    fmt::print("{:<{}}  {:<5} {:<20} {:<30} {}\n", name, longest, tensor.dtype,
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")), to_string(tensor.placements), tensor.shards.size());
  }
}

/// The metadata that was saved with the tensors; for a run, its progress.
void print_metadata(const std::map<std::string, std::string, std::less<>>& metadata) {
  constexpr std::size_t kLongest = 200;
  for (const auto& [key, value] : metadata) {
    if (key == state::kRecordKey) {
      const auto state = train::parse_run_state(value);
      fmt::print("checkpoint of a run: {} steps done, {} epochs and {} steps of the next, {} samples\n", state.step,
                 state.epoch, state.step_in_epoch, state.samples);
    } else if (!key.starts_with("lockstep.")) {
      fmt::print("{}: {}{}\n", key, value.substr(0, kLongest), value.size() > kLongest ? "..." : "");
    }
  }
}

/// A checkpoint in one file, or any other safetensors file.
int inspect_file(const std::string& file, bool verify) {
  const state::SafetensorsReader reader(file);
  const auto& header = reader.header();
  fmt::print("{}: {} tensors, {}, in one file\n", file, header.entries.size(),
             bytes_in_words(static_cast<std::int64_t>(header.entries.empty() ? 0 : header.entries.back().end)));
  print_metadata(header.metadata);
  std::size_t longest = 4;
  for (const auto& entry : header.entries) longest = std::max(longest, entry.name.size());
  fmt::print("{:<{}}  {:<5} {}\n", "name", longest, "dtype", "shape");
  for (const auto& entry : header.entries) {
    fmt::print("{:<{}}  {:<5} [{}]\n", entry.name, longest, entry.dtype, fmt::join(entry.shape, ", "));
  }
  if (!header.metadata.contains(state::kRecordKey)) {
    fmt::print("the file is whole; it has no checksum, as it is not a checkpoint of a run\n");
  } else if (!verify) {
    fmt::print("the file is whole; --verify compares its checksum, too\n");
  } else {
    state::require_intact(state::open_checkpoint(file));
    fmt::print("its content has its checksum\n");
  }
  return kOk;
}

int inspect(const std::string& given, bool verify) {
  const auto folder = train::checkpoint_of_run(given).string();
  std::error_code unknown;
  if (std::filesystem::is_regular_file(folder, unknown)) return inspect_file(folder, verify);
  if (!std::filesystem::exists(folder, unknown)) {
    fail(ErrorKind::data, "inspect",
         "there is no file or folder {}: give a sharded checkpoint (step_*.sharded in a run's checkpoints/), or a "
         "safetensors file",
         folder);
  }
  const auto index = state::read_index(folder);
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : index.tensors) bytes += tensor.bytes();
  fmt::print("{}: save {} of a mesh {}: {} tensors, {}, in {} files\n", folder, index.save, to_string(index.mesh),
             index.tensors.size(), bytes_in_words(bytes), index.files().size());
  print_metadata(index.metadata);
  print_tensors(index);
  const auto problems = problems_of_shards(folder, index, !verify);
  if (problems.empty()) {
    fmt::print("{}\n", verify ? "every shard is there and has its checksum"
                              : "every file is there; --verify compares the checksums, too");
    return kOk;
  }
  std::fflush(stdout);
  for (const auto& problem : problems) fmt::print(stderr, "lockstep: error: {}\n", problem);
  return kFailed;
}

void add_inspect(CLI::App& checkpoint, Action& chosen) {
  struct Arguments {
    std::string folder;
    bool verify = false;
  };
  CLI::App* command = checkpoint.add_subcommand("inspect", "Show what a checkpoint holds, and what is missing");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("PATH", arguments->folder,
                   "The folder of a checkpoint in parts, of a run (its newest checkpoint), or a safetensors file")
      ->required()
      ->type_name("");
  command->add_flag("--verify", arguments->verify, "Read every tensor and compare its SHA-256");
  command->footer("Exit code: 0 when all is well, 1 when something is missing or damaged.");
  command->callback([=, &chosen] { chosen = [=] { return inspect(arguments->folder, arguments->verify); }; });
}

/// "4GB" is four billion bytes, as Hugging Face's tools read it; "4GiB" and "4G" are powers of 1024.
std::uint64_t read_shard_size(const std::string& text) {
  std::string number = text;
  std::int64_t unit = 1;
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kDecimal = {
      {{"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}}};
  for (const auto& [name, bytes] : kDecimal) {
    if (!number.ends_with(name)) continue;
    number.resize(number.size() - name.size());
    unit = bytes;
  }
  if (number.ends_with("iB")) number.resize(number.size() - 2);
  const auto size = unit == 1 ? parse_bytes(number) : parse_integer(number);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (!size || *size < 1 || *size > kMost / unit) {
    fail(ErrorKind::invalid_argument, "merge", "--shard-size is a number of bytes, like 4GB, 500MB or 2GiB; got '{}'",
         text);
  }
  return static_cast<std::uint64_t>(*size * unit);
}

void add_merge(CLI::App& checkpoint, Action& chosen) {
  struct Arguments {
    std::string folder;
    std::string out;
    std::string shard_size;
  };
  CLI::App* command =
      checkpoint.add_subcommand("merge", "Write all tensors, whole, to one safetensors file for a single device");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->folder, "The folder that was saved to")->required()->type_name("");
  command
      ->add_option("--out", arguments->out, "The file to write (with --shard-size the folder); an old one is replaced")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--shard-size", arguments->shard_size,
                   "Most bytes of one file, like 4GB: the weights go to several, with an index")
      ->type_name("SIZE");
  command->footer(
      "With --shard-size the weights alone go to a folder, as Hugging Face's tools have them: "
      "model-00001-of-00002.safetensors\n"
      "and so on, and model.safetensors.index.json.\n"
      "Of the checkpoint of a run it makes one in a single file, from which a run goes on too (checkpoint.resume).\n"
      "Needs memory for the largest tensor and one of its shards. Python reads the file with safetensors.\n"
      "Example:\n"
      "  lockstep checkpoint merge out/ckpt --out weights.safetensors");
  command->callback([=, &chosen] {
    chosen = [=] {
      const auto index = state::read_index(arguments->folder);
      if (!arguments->shard_size.empty()) {
        state::ShardReader reader(arguments->folder, index);
        // In a run's checkpoint, only this run uses the optimizer's state.
        const auto* const prefix = index.metadata.contains(state::kRecordKey) ? "model." : "";
        const auto size = read_shard_size(arguments->shard_size);
        const auto count = state::merge_to_shards(reader, arguments->out, size, prefix);
        fmt::print("{}: the weights of {}, in {} files\n", arguments->out, arguments->folder, count);
        return kOk;
      }
      require_writable_file(arguments->out, "--out");
      if (index.metadata.contains(state::kRecordKey)) {
        state::merge_checkpoint(arguments->folder, arguments->out);
      } else {
        state::ShardReader reader(arguments->folder, index);
        state::merge_sharded(reader, arguments->out, index.metadata);
      }
      fmt::print("{}: all tensors of {}\n", arguments->out, arguments->folder);
      return kOk;
    };
  });
}

struct ReshardArguments {
  std::string folder;
  std::string out;
  std::string mesh;
  std::string names;
  std::vector<std::string> placements;
};

MeshShape read_mesh(const ReshardArguments& arguments, const MeshShape& before) {
  MeshShape mesh;
  for (const auto& part : parts_between(arguments.mesh, 'x')) {
    const auto size = parse_integer(part);
    if (!size || *size < 1 || *size > 1'000'000) {
      fail(ErrorKind::invalid_argument, "reshard", "--mesh is sizes with an x between them, like 2x4 or 8; got '{}'",
           arguments.mesh);
    }
    mesh.sizes.push_back(static_cast<int>(*size));
  }
  if (!arguments.names.empty()) {
    mesh.names = parts_between(arguments.names, ',');
  } else if (before.sizes.size() == mesh.sizes.size()) {
    mesh.names = before.names;
  } else {
    for (std::size_t axis = 0; axis < mesh.sizes.size(); ++axis) mesh.names.push_back(std::to_string(axis));
  }
  if (mesh.names.size() != mesh.sizes.size()) {
    fail(ErrorKind::invalid_argument, "reshard", "--names has {} names for the {} axes of --mesh {}", mesh.names.size(),
         mesh.sizes.size(), arguments.mesh);
  }
  return mesh;
}

PlacementRule read_rule(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    fail(ErrorKind::invalid_argument, "reshard",
         "--placements is NAME=PLACEMENTS, like 'fc.weight=[Shard(0), Replicate()]' or 'fc.*=S0,R'; got '{}'", text);
  }
  return {.pattern = text.substr(0, equals), .placements = parse_placements(std::string_view(text).substr(equals + 1))};
}

int run_reshard(const ReshardArguments& arguments) {
  const auto mesh = read_mesh(arguments, state::read_index(arguments.folder).mesh);
  std::vector<PlacementRule> rules;
  for (const auto& text : arguments.placements) rules.push_back(read_rule(text));
  const auto index = state::reshard(arguments.folder, arguments.out, mesh, rules);
  fmt::print("{}: the tensors of {}, for a mesh {}\n", arguments.out, arguments.folder, to_string(mesh));
  print_tensors(index);
  return kOk;
}

void add_reshard(CLI::App& checkpoint, Action& chosen) {
  CLI::App* command = checkpoint.add_subcommand("reshard", "Write the same tensors as another mesh would save them");
  const auto arguments = std::make_shared<ReshardArguments>();
  command->add_option("DIR", arguments->folder, "The folder that was saved to")->required()->type_name("");
  command->add_option("--out", arguments->out, "The folder to write; may be DIR itself")->required()->type_name("DIR2");
  command->add_option("--mesh", arguments->mesh, "Sizes of the new mesh's axes, like 2x4")
      ->required()
      ->type_name("SIZES");
  command->add_option("--names", arguments->names, "Names of the axes, like data,model; else those of before")
      ->type_name("NAMES");
  command
      ->add_option("--placements", arguments->placements,
                   "Placements of tensors, one for each axis; NAME may have * and ?, the first that matches counts. "
                   "Other tensors keep theirs when the mesh has as many axes as before, and are replicated else")
      ->type_name("NAME=PLACEMENTS");
  command->footer(
      "This is seldom needed: a run reads a checkpoint of any mesh. It saves the reading of shards that are larger "
      "than\n"
      "what a rank needs. Runs in one process and needs memory for one shard of the old and one of the new.\n"
      "Example:\n"
      "  lockstep checkpoint reshard out/ckpt --out out/ckpt8 --mesh 2x4 --placements 'fc.*=[Replicate(), Shard(0)]'");
  command->callback([=, &chosen] { chosen = [=] { return run_reshard(*arguments); }; });
}

}  // namespace

void add_checkpoint(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("checkpoint", "Inspect, merge or reshard a checkpoint");
  command->require_subcommand(1);
  add_inspect(*command, chosen);
  add_merge(*command, chosen);
  add_reshard(*command, chosen);
}

}  // namespace lockstep::cli
