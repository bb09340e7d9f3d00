#include "spec/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/fields.h"
#include "spec/load.h"

namespace dure::spec {
namespace {

using nlohmann::json;

// The part of the schema that is about the field; null if there is none.
json schemaOf(const std::string& path) {
  json schema = jobSchema();
  for (const std::string& name : split(path, '.')) {
    if (schema.contains("items")) schema = schema["items"];
    if (schema.contains("oneOf")) schema = schema["oneOf"][1];
    if (!schema.contains("properties") || !schema["properties"].contains(name)) return nullptr;
    schema = schema["properties"][name];
  }
  return schema;
}

TEST(SchemaTest, HasEveryFieldWithItsMeaning) {
  for (const FieldEntry& entry : fieldCatalog()) {
    if (entry.path.empty()) continue;
    const json schema = schemaOf(entry.path);
    ASSERT_FALSE(schema.is_null()) << entry.path;
    EXPECT_EQ(schema["description"], entry.doc) << entry.path;
  }
}

TEST(SchemaTest, HasTheRulesOfTheDefinition) {
  const json schema = jobSchema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schemaOf("strategy")["enum"], strategyWords());
  EXPECT_FALSE(schemaOf("strategy").contains("default"));
  EXPECT_EQ(schemaOf("train.epochs"), json::parse(R"({"type": "integer", "minimum": 1, "default": 1,
                            "description": "How many passes over the data."})"));
  EXPECT_EQ(schemaOf("train.optimizer.lr")["exclusiveMinimum"], 0);
  EXPECT_EQ(schemaOf("restarts.backoff")["default"], "200ms");
  EXPECT_EQ(schemaOf("workers")["oneOf"][0]["maximum"], 10'000);
  EXPECT_EQ(schemaOf("workers")["oneOf"][1]["required"], json({"min", "max"}));
  EXPECT_EQ(schemaOf("roles.worker")["$ref"], "#/properties/workers");
  EXPECT_EQ(schemaOf("image")["$ref"], "#/properties/program/properties/image");
  EXPECT_EQ(schemaOf("checkpoint_pvc_name")["$ref"],
            "#/properties/checkpoint/oneOf/1/properties/claim");
  EXPECT_EQ(schemaOf("script")["type"], "string");
  EXPECT_EQ(schemaOf("processes")["default"], "auto");
  EXPECT_EQ(json::parse(schema.dump()), schema);
}

TEST(SchemaTest, PatternsAgreeWithTheLoader) {
  const std::regex name(schemaOf("name")["pattern"].get<std::string>());
  for (const std::string text : {"a", "a-b", "a1", "1a", "a-", "-a", "A", "a_b", "", "a--b"}) {
    EXPECT_EQ(std::regex_search(text, name), isJobName(text)) << text;
  }
  for (const std::size_t length : {39u, 40u, 41u}) {
    const std::string text(length, 'a');
    EXPECT_EQ(std::regex_search(text, name), isJobName(text)) << length;
  }
  const std::regex variable{std::string(kEnvironmentNamePattern)};
  for (const std::string text : {"A", "a.b", "DURE_X", "XDURE_", "A=B", "", "A\nB"}) {
    EXPECT_EQ(std::regex_search(text, variable), environmentNameProblem(text).empty()) << text;
  }
  const std::regex label{std::string(kLabelKeyPattern)};
  for (const std::string text : {"a", "a.b/c-d_e", "A9", "-a", "a-", "", "a b", "a=b", "/a"}) {
    EXPECT_EQ(std::regex_search(text, label), labelKeyProblem(text).empty()) << text;
  }
  const std::regex volume(schemaOf("volumes.path")["pattern"].get<std::string>());
  for (const std::string text :
       {"/a", "a/b", ".", "", "..", "a/../b", "../a", "a..b", "..a", "a:b"}) {
    EXPECT_EQ(std::regex_search(text, volume), isVolumePath(text)) << text;
  }
  const std::regex claim(schemaOf("volumes.claim")["pattern"].get<std::string>());
  for (const std::string text : {"a", "a.b", "a..b", "1a", "-a", "A", "a_b"}) {
    const std::string job = "program: {command: [a]}\nvolumes: [{path: /a, claim: " + text + "}]\n";
    EXPECT_EQ(std::regex_search(text, claim), loadJobText("", job, {}).ok()) << text;
  }
  const std::regex part(schemaOf("volumes.sub_path")["pattern"].get<std::string>());
  for (const std::string text : {"a", "a/b", "/a", "..", "a/../b", "a..b", "a:b"}) {
    const std::string job =
        "program: {command: [a]}\nvolumes: [{path: /a, claim: c, sub_path: '" + text + "'}]\n";
    EXPECT_EQ(std::regex_search(text, part), loadJobText("", job, {}).ok()) << text;
  }
  const std::regex time(schemaOf("deadline")["oneOf"][1]["pattern"].get<std::string>());
  for (const std::string text :
       {"30s", "1h30m", "250ms", "1.5h", "5", "s", "1x", "", "1h 2m", ".5s"}) {
    EXPECT_EQ(std::regex_search(text, time), parseDuration(text).has_value()) << text;
  }
  const std::regex size(schemaOf("resources.memory")["oneOf"][1]["pattern"].get<std::string>());
  for (const std::string text : {"2Gi", "1500M", "64k", "12", "1.5Gi", "Gi", "2gi", "2GiB", ""}) {
    EXPECT_EQ(std::regex_search(text, size), parseBytes(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace dure::spec
