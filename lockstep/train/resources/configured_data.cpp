// Lookup of the data set's part, with the short form of its folder; lists of transforms for training and evaluation.
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/keys/refused_words.h>
#include <lockstep/train/resources/configured_data.h>

#include <string_view>
#include <utility>
#include <variant>

namespace lockstep::train {
namespace {

class RootField final : public ConfigFields {
 public:
  std::string* root = nullptr;

 private:
  void visit(std::string_view key, ConfigTarget target, const ConfigRule& /*rule*/, std::string_view /*doc*/) override {
    if (key == "root" && std::holds_alternative<std::string*>(target)) root = std::get<std::string*>(target);
  }
  bool enter(std::string_view /*key*/, std::string_view /*doc*/) override { return false; }
  bool enter_optional(std::string_view /*key*/, bool present, std::string_view /*doc*/) override { return present; }
  void leave() override {}
};

}  // namespace

const DataPart& data_part(const DataConfig& config) {
  return part_named(parts_or_shipped(config.parts).data, config.name, "data.name");
}

std::string* root_of(PartOptions& options) {
  RootField field;
  options.visit(field);
  return field.root;
}

PartOptions data_options(const DataConfig& config, const DataPart& part) {
  PartOptions options = options_of(config, part);
  auto* root = config.root.empty() ? nullptr : root_of(options);
  if (root != nullptr && root->empty()) *root = config.root;
  return options;
}

samples::TransformList transforms_of(const DataConfig& config, data::Split split,
                                     const std::optional<data::PictureShape>& stored) {
  const auto& parts = parts_or_shipped(config.parts).transforms;
  const auto words = refused_words();
  if (split == data::Split::test && config.eval_transforms.kind != ConfigNode::Kind::null) {
    return samples::read_transforms(config.eval_transforms, "data.eval_transforms", words, parts, true, stored);
  }
  return samples::read_transforms(config.train_transforms, "data.train_transforms", words, parts,
                                  split == data::Split::train, stored);
}

}  // namespace lockstep::train
