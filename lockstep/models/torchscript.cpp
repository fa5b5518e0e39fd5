// A TorchScript module whose tensors are those of a torch::nn::Module; buffers that the script replaces are rejoined.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/models/torchscript.h>

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::models {
namespace {

constexpr std::string_view kKey = "model.file";

torch::jit::Module load_script(const std::filesystem::path& file) {
  std::error_code unknown;
  if (file.empty())
    fail(ErrorKind::config, kKey, "is not given; name the file that torch.jit.script(model).save() wrote");
  if (!std::filesystem::is_regular_file(file, unknown)) {
    fail(ErrorKind::config, kKey, "{} is no file", file.string());
  }
  try {
    return torch::jit::load(file.string(), torch::Device(torch::kCPU));
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    fail(ErrorKind::config, kKey,
         "{} cannot be read as TorchScript: {}; write it in Python with torch.jit.script(model).save(\"{}\") (a state "
         "dict is for model.weights)",
         file.string(), reason.substr(0, reason.find('\n')), file.filename().string());
  }
}

/// A node of the tree of names, with the parameters and buffers of the script.
struct Folder : torch::nn::Module {};

/// A buffer as the script and as the tree of modules have it.
struct SharedBuffer {
  torch::jit::Module owner;
  std::string name;
  at::Tensor tensor;
};

/// Layers whose mode a trace wrote into the script: "2 batch_norm, 1 dropout"; empty where there are none.
class FixedModes {
 public:
  explicit FixedModes(const torch::jit::Module& script) {
    for (const auto& module : script.modules()) {
      if (const auto method = module.find_method("forward")) count(*method->graph()->block());
    }
  }

  std::string in_evaluation() const { return words_for(false); }
  std::string in_training() const { return words_for(true); }

 private:
  void count(const torch::jit::Block& block) {
    for (const auto* node : block.nodes()) {
      for (const auto* inner : node->blocks()) count(*inner);
      const auto* schema = node->maybeSchema();
      if (schema == nullptr) continue;
      for (const auto* argument : {"training", "train"}) {
        const auto at = schema->argumentIndexWithName(argument);
        if (!at) continue;
        const auto mode = torch::jit::toIValue(node->input(static_cast<std::size_t>(*at)));
        if (mode && mode->isBool()) ++counts_[{mode->toBool(), node->kind().toUnqualString()}];
      }
    }
  }

  std::string words_for(bool training) const {
    std::string words;
    for (const auto& [kind, count] : counts_) {
      if (kind.first == training) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, kind.second);
    }
    return words;
  }

  std::map<std::pair<bool, std::string>, int> counts_;
};

class ScriptedNetwork final : public Network {
 public:
  explicit ScriptedNetwork(torch::jit::Module script) : script_(std::move(script)), fixed_(script_) {
    mirror(script_, *this);
  }

  /// A remark for the user; empty: there is none.
  std::string remark() const {
    const auto frozen = fixed_.in_evaluation(), training = fixed_.in_training();
    if (!frozen.empty()) {
      return fmt::format(
          "the script of model.file was traced in evaluation mode: {} stay in that mode in training (statistics that "
          "are not updated, no "
          "dropout); export it with torch.jit.script, or trace it after model.train()",
          frozen);
    }
    if (training.empty()) return "";
    return fmt::format(
        "the script of model.file was traced in training mode: {} stay in that mode in evaluation; export it with "
        "torch.jit.script",
        training);
  }

  at::Tensor forward(const at::Tensor& pictures) override {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    const auto output = script_.forward({pictures});
    if (!output.isTensor()) {
      fail(ErrorKind::config, kKey, "the script's forward gives {}, and a classifier gives a tensor of logits",
           output.tagKind());
    }
    rejoin_buffers();
    return output.toTensor();
  }

  void train(bool on) override {
    Module::train(on);
    script_.train(on);
  }

 private:
  /// Registers the tensors of `script` with `module`, without copies.
  void mirror(const torch::jit::Module& script, torch::nn::Module& module) {
    for (const auto& [name, tensor] : script.named_parameters(/*recurse=*/false)) {
      module.register_parameter(name, tensor, tensor.requires_grad());
    }
    for (const auto& [name, tensor] : script.named_buffers(/*recurse=*/false)) {
      buffers_.push_back({script, name, module.register_buffer(name, tensor)});
    }
    for (const auto& [name, child] : script.named_children()) {
      mirror(child, *module.register_module(name, std::make_shared<Folder>()));
    }
  }

  /// A script may replace the tensor of a buffer, such as x = x + 1 for a counter.
  void rejoin_buffers() {
    const torch::NoGradGuard no_grad;
    for (auto& [owner, name, tensor] : buffers_) {
      const auto now = owner.attr(name).toTensor();
      if (now.is_same(tensor)) continue;
      tensor.copy_(now);
      owner.setattr(name, tensor);
    }
  }

  torch::jit::Module script_;
  FixedModes fixed_;
  std::vector<SharedBuffer> buffers_;
};

}  // namespace

void describe(ConfigFields& fields, TorchScriptOptions& options) {
  fields.field("file", options.file, required(a_path()), "the .pt that torch.jit.script(model).save() or trace wrote");
}

std::shared_ptr<Network> torchscript(const std::filesystem::path& file) {
  auto network = std::make_shared<ScriptedNetwork>(load_script(file));
  if (network->parameters().empty()) {
    fail(ErrorKind::config, kKey, "{} has no parameters to train; export the model before torch.jit.freeze",
         file.string());
  }
  return network;
}

std::vector<std::string> remarks_on_script(torch::nn::Module& network) {
  const auto* scripted = dynamic_cast<const ScriptedNetwork*>(&network);
  auto remark = scripted == nullptr ? std::string() : scripted->remark();
  return remark.empty() ? std::vector<std::string>{} : std::vector{std::move(remark)};
}

void save_torchscript(const std::filesystem::path& file, const std::map<std::string, at::Tensor, std::less<>>& weights,
                      const std::filesystem::path& target) {
  auto script = load_script(file);
  const torch::NoGradGuard no_grad;
  std::map<std::string, at::Tensor, std::less<>> own;
  for (const auto& [name, tensor] : script.named_parameters()) own.emplace(name, tensor);
  for (const auto& [name, tensor] : script.named_buffers()) own.emplace(name, tensor);
  for (const auto& [name, tensor] : weights) {
    const auto found = own.find(name);
    if (found == own.end()) fail(ErrorKind::data, kKey, "{} has no tensor '{}'", file.string(), name);
    found->second.copy_(tensor);
  }
  std::ostringstream out;
  script.save(out);
  write_file_atomically(target, out.str());
}

}  // namespace lockstep::models
