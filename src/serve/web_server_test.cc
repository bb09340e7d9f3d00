#include "serve/web_server.h"

#include <sys/socket.h>

#include <fstream>
#include <future>

#include <gtest/gtest.h>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "net/asio.h"
#include "serve/test_model.h"

namespace dure::serve {
namespace {

using tcp = asio::ip::tcp;

constexpr unsigned char kWhole[] = {'p', 'a', 'g', 'e'};
constexpr unsigned char kZipped[] = {'z', 'i', 'p', 'p', 'e', 'd'};
constexpr web::PageFile kPage[] = {
    {.path = "/", .type = "text/html", .etag = "\"one\"", .content = kWhole, .gzip = kZipped},
    {.path = "/assets/a-1.js",
     .type = "text/javascript",
     .etag = "\"two\"",
     .content = kWhole,
     .gzip = kZipped}};

// A server on a free port with a model "sum", whose file is there unless a test says otherwise.
class WebServerTest : public testing::Test {
 protected:
  void begin(WebOptions options = {}, BatchOptions batch = {.threads = 2},
             const std::string& token = "") {
    options.port = 0;
    path_ = testing::TempDir() + "/serve_test_" + std::to_string(getpid()) + ".h5";
    writeModel("1");
    batcher_ = std::make_unique<Batcher>(batch, metrics_, nullptr);
    store_ = std::make_unique<ModelStore>(
        std::vector<ModelStore::Place>{{"sum", path_}},
        [this](const std::string& path) -> Result<std::shared_ptr<const Model>> {
          float bias = 0;
          if (!(std::ifstream(path) >> bias)) return Error(Code::kInvalid, path + " is damaged");
          auto model = std::make_shared<FakeModel>(bias - 1);
          model->delay = delay_;
          return std::shared_ptr<const Model>(std::move(model));
        },
        Duration(5), [](const std::string&) {});
    service_ = std::make_unique<Service>(*store_, *batcher_, metrics_, token, kPage);
    auto web = WebServer::listen(options, *service_, metrics_, nullptr);
    ASSERT_TRUE(web) << web.error().message();
    web_ = *std::move(web);
    while (!store_->ready()) std::this_thread::yield();
  }

  ~WebServerTest() override {
    if (web_) web_->stop(Duration(1000));
    batcher_.reset();
    std::remove(path_.c_str());
  }

  void writeModel(const std::string& text) {
    const std::string temporary = path_ + ".tmp";
    std::ofstream(temporary) << text;
    std::rename(temporary.c_str(), path_.c_str());
  }

  tcp::socket connect() {
    tcp::socket socket(loop_);
    socket.connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(web_->port())});
    const timeval wait{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return socket;
  }

  // Everything up to the end of the connection.
  static std::string readAll(tcp::socket& socket) {
    std::string all;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(all), error);
    return all;
  }

  std::string ask(const std::string& text) {
    tcp::socket socket = connect();
    asio::write(socket, asio::buffer(text));
    return readAll(socket);
  }

  static std::string post(const std::string& path, const std::string& body,
                          const std::string& more = "Connection: close\r\n") {
    return "POST " + path +
           " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           more + "\r\n" + body;
  }
  static std::string get(const std::string& path, const std::string& more = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + more + "\r\n";
  }

  asio::io_context loop_;
  std::string path_;
  std::chrono::milliseconds delay_{0};
  Metrics metrics_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<ModelStore> store_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<WebServer> web_;
};

constexpr const char* kPredict = "/v1/models/sum:predict";
constexpr const char* kOneTwo = R"({"instances": [[1, 2]]})";

TEST_F(WebServerTest, AnswersInBothProtocols) {
  begin();
  EXPECT_NE(ask(post(kPredict, kOneTwo)).find("\r\n\r\n{\"predictions\": [[3.0]]}"),
            std::string::npos);
  EXPECT_NE(
      ask(post(
              "/v2/models/sum/infer",
              R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})"))
          .find("\"data\": [3.0]"),
      std::string::npos);
  for (const char* path :
       {"/healthz", "/readyz", "/metrics", "/v1/models/sum", "/v1/models/sum/versions/1",
        "/v1/models/sum/metadata", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/sum",
        "/v2/models/sum/ready", "/v2/models/sum/versions/1", "/api/models", "/"})
    EXPECT_TRUE(ask(get(path)).starts_with("HTTP/1.1 200 ")) << path;
  for (const char* path : {"/x", "/v1/models/other", "/v1/models/sum/versions/2",
                           "/v2/models/other", "/../etc/passwd"})
    EXPECT_TRUE(ask(get(path)).starts_with("HTTP/1.1 404 ")) << path;
  EXPECT_TRUE(ask(get(kPredict)).starts_with("HTTP/1.1 405 "));
}

TEST_F(WebServerTest, SendsThePageAsTheBrowserTakesItAndOnce) {
  begin();
  const std::string plain = ask(get("/"));
  EXPECT_TRUE(plain.ends_with("\r\n\r\npage")) << plain;
  EXPECT_NE(plain.find("ETag: \"one\"\r\n"), std::string::npos);
  EXPECT_NE(plain.find("Content-Security-Policy: "), std::string::npos);
  EXPECT_NE(plain.find("Cache-Control: no-cache\r\n"), std::string::npos);
  const std::string zipped = ask(get("/", "Accept-Encoding: deflate, gzip\r\n"));
  EXPECT_TRUE(zipped.ends_with("\r\n\r\nzipped")) << zipped;
  EXPECT_NE(zipped.find("Content-Encoding: gzip\r\n"), std::string::npos);
  const std::string known = ask(get("/", "If-None-Match: \"one\"\r\n"));
  EXPECT_TRUE(known.starts_with("HTTP/1.1 304 ")) << known;
  EXPECT_TRUE(known.ends_with("\r\n\r\n")) << known;
  EXPECT_NE(ask(get("/assets/a-1.js")).find("immutable"), std::string::npos);
}

TEST_F(WebServerTest, AnswersRequestsThatAreSentAheadInTheirOrder) {
  begin();
  std::string many;
  for (int i = 0; i < 20; ++i)
    many += post(kPredict, "{\"instances\": [[" + std::to_string(100 + i) + ", 0]]}",
                 i == 19 ? "Connection: close\r\n" : "");
  const std::string replies = ask(many);
  std::size_t at = 0;
  for (int i = 0; i < 20; ++i) {
    at = replies.find("[[" + std::to_string(100 + i) + ".0]]", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(WebServerTest, BatchesRequestsThatWaitTogetherAndFailsOnlyTheWrongOne) {
  delay_ = std::chrono::milliseconds(50);
  begin({}, {.size = 16, .threads = 1});
  std::vector<std::future<std::string>> replies;
  for (int i = 8; i < 16; ++i) {
    replies.push_back(std::async(std::launch::async, [this, i] {
      return ask(post(kPredict, "{\"instances\": [[" + std::to_string(i) + ", 0]]}"));
    }));
  }
  for (int i = 8; i < 16; ++i) {
    const std::string reply = replies[static_cast<std::size_t>(i - 8)].get();
    EXPECT_TRUE(reply.starts_with(i == 13 ? "HTTP/1.1 400 " : "HTTP/1.1 200 ")) << reply;
  }
  EXPECT_NE(metrics_.text({}).find("dure_batch_requests_bucket{le=\"1\"}"), std::string::npos);
}

TEST_F(WebServerTest, TurnsAwayWhatDoesNotFitTheQueue) {
  delay_ = std::chrono::milliseconds(100);
  begin({}, {.size = 1, .queue = 1, .threads = 1});
  std::vector<std::future<std::string>> replies;
  for (int i = 0; i < 12; ++i)
    replies.push_back(
        std::async(std::launch::async, [this] { return ask(post(kPredict, kOneTwo)); }));
  int refused = 0;
  for (auto& each : replies) {
    const std::string reply = each.get();
    if (reply.starts_with("HTTP/1.1 200 ")) continue;
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 503 ")) << reply;
    EXPECT_NE(reply.find("Retry-After: 1\r\n"), std::string::npos);
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(WebServerTest, TakesUpANewerFileAndKeepsTheOldOneWhereThatIsDamaged) {
  begin();
  writeModel("101");
  while (store_->find("sum")->version < 2) std::this_thread::yield();
  EXPECT_NE(ask(post(kPredict, kOneTwo)).find("[[103.0]]"), std::string::npos);
  writeModel("broken");
  while (store_->view("sum")->why.empty()) std::this_thread::yield();
  EXPECT_NE(ask(post(kPredict, kOneTwo)).find("[[103.0]]"), std::string::npos);
  EXPECT_NE(ask(get("/api/models")).find("a newer file was not taken up"), std::string::npos);
}

TEST_F(WebServerTest, AsksForTheTokenEverywhereButOnThePage) {
  begin({}, {}, "secret");
  EXPECT_TRUE(ask(post(kPredict, kOneTwo)).starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask(post(kPredict, kOneTwo, "Authorization: Bearer wrong\r\nConnection: close\r\n"))
                  .starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask(post(kPredict, kOneTwo, "Authorization: bearer secret\r\nConnection: close\r\n"))
                  .starts_with("HTTP/1.1 200 "));
  for (const char* path : {"/", "/healthz", "/readyz"})
    EXPECT_TRUE(ask(get(path)).starts_with("HTTP/1.1 200 ")) << path;
  for (const char* path : {"/metrics", "/api/models", "/v2"})
    EXPECT_TRUE(ask(get(path)).starts_with("HTTP/1.1 401 ")) << path;
}

TEST_F(WebServerTest, EndsConnectionsThatTakeTooLong) {
  begin({.head_time = Duration(300), .body_time = Duration(300), .idle_time = Duration(300)});
  EXPECT_TRUE(ask("GET / HT").starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(ask("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
                  .starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(ask(""), "");
  EXPECT_TRUE(ask(get("/healthz")).starts_with("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, RefusesALargeBodyWithoutReadingIt) {
  begin({.limits = {.body = 1000}});
  EXPECT_TRUE(ask("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n")
                  .starts_with("HTTP/1.1 413 "));
}

TEST_F(WebServerTest, AllowsToContinue) {
  begin();
  const std::string reply =
      ask(post(kPredict, kOneTwo, "Expect: 100-continue\r\nConnection: close\r\n"));
  EXPECT_NE(reply.find(" 200 OK"), std::string::npos) << reply;
}

TEST_F(WebServerTest, FinishesWhatIsUnderWayBeforeItStops) {
  delay_ = std::chrono::milliseconds(200);
  begin();
  auto reply = std::async(std::launch::async, [this] { return ask(post(kPredict, kOneTwo, "")); });
  while (metrics_.connections() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  service_->beginStopping();
  EXPECT_TRUE(web_->stop(Duration(5000)));
  const std::string text = reply.get();
  EXPECT_NE(text.find("[[3.0]]"), std::string::npos) << text;
}

TEST_F(WebServerTest, LimitsConnections) {
  begin({.connections = 2});
  tcp::socket first = connect();
  tcp::socket second = connect();
  while (metrics_.connections() < 2) std::this_thread::yield();
  tcp::socket third = connect();
  EXPECT_TRUE(readAll(third).starts_with("HTTP/1.1 503 "));
}

}  // namespace
}  // namespace dure::serve
