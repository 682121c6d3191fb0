//! Requests under locks: who is let in, and what the others are told.
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use distlock::Locks;
use distlock::web::{Busy, LockKey, LockLayer, Locked};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Server, Stopwatch};
use tokio::sync::Notify;
use tower::ServiceExt;

const LONG: Duration = Duration::from_secs(60);

/// What the handlers of a test share.
#[derive(Clone)]
struct Scene {
    locks: Locks,
    inside: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
    go_on: Arc<Notify>,
}

impl axum::extract::FromRef<Scene> for Locks {
    fn from_ref(scene: &Scene) -> Locks {
        scene.locks.clone()
    }
}

/// Inside the handler, however it ends.
struct Inside(Scene);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Scene {
    fn new(locks: Locks) -> Scene {
        let (inside, most, dropped) = Default::default();
        Scene { locks, inside, most, dropped, go_on: Arc::default() }
    }

    fn enter(&self) -> Inside {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        Inside(self.clone())
    }

    fn inside(&self) -> u32 {
        self.inside.load(Ordering::SeqCst)
    }

    /// `/quick` yields, `/slow` waits for the test, `/bad` refuses after losing its lock.
    fn routes(&self) -> Router {
        let quick = async |State(scene): State<Scene>| {
            let _inside = scene.enter();
            tokio::time::sleep(Duration::from_millis(1)).await;
            "done"
        };
        let slow = async |State(scene): State<Scene>| {
            let _inside = scene.enter();
            scene.go_on.notified().await;
            "done"
        };
        let bad = async |State(scene): State<Scene>| {
            scene.locks.mutex("key").force_unlock().await.unwrap();
            StatusCode::IM_A_TEAPOT
        };
        let router = Router::new().route("/quick", get(quick)).route("/slow", get(slow));
        router.route("/bad", get(bad)).with_state(self.clone())
    }

    fn layered(&self, rules: impl FnOnce(LockLayer<Key>) -> LockLayer<Key>) -> Router {
        self.routes().layer(rules(LockLayer::new(&self.locks, key as Key)))
    }
}

type Key = fn(&Request<Body>) -> Option<String>;

/// The query is the key.
fn key(request: &Request<Body>) -> Option<String> {
    request.uri().query().map(str::to_owned)
}

async fn call(app: &Router, uri: &str) -> Response<Body> {
    let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

fn retry_after(response: &Response<Body>) -> Option<u64> {
    response.headers().get("retry-after")?.to_str().unwrap().parse().ok()
}

async fn crowd(app: &Router, uris: impl Iterator<Item = String>) -> Vec<StatusCode> {
    let mut crowd = tokio::task::JoinSet::new();
    for uri in uris {
        let app = app.clone();
        crowd.spawn(async move { call(&app, &uri).await.status() });
    }
    crowd.join_all().await
}

#[tokio::test]
async fn requests_with_one_key_take_turns_and_others_do_not_wait_for_them() {
    let scene = Scene::new(Locks::memory());
    let app = scene.layered(|layer| layer.wait(LONG));
    let done = crowd(&app, (0..50).map(|_| "/quick?key".to_owned())).await;
    assert!(done.iter().all(StatusCode::is_success));
    assert_eq!(scene.most.load(Ordering::SeqCst), 1, "two were inside");
    // Without a key, and with one each, they are together in there.
    for uris in [["/slow", "/slow"], ["/slow?a", "/slow?b"]] {
        let scene = Scene::new(Locks::memory());
        let app = scene.layered(|layer| layer);
        let both = tokio::spawn(async move { crowd(&app, uris.iter().map(|u| (*u).into())).await });
        eventually("both inside", || async { scene.inside() == 2 }).await;
        scene.go_on.notify_waiters();
        assert!(both.await.unwrap().iter().all(StatusCode::is_success));
    }
    assert!(scene.locks.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_busy_key_is_told_when_to_come_back() {
    let scene = Scene::new(Locks::memory());
    let mutex = scene.locks.mutex("key");
    let held = mutex.lock().lease(Duration::from_millis(90_500)).await.unwrap();
    let locked = call(&scene.layered(|layer| layer), "/quick?key").await;
    assert_eq!(locked.status(), StatusCode::LOCKED);
    assert!((60..=91).contains(&retry_after(&locked).unwrap()), "{locked:?}");
    let conflict = scene.layered(|layer| layer.busy(Busy::Conflict).wait(Duration::from_millis(5)));
    let conflict = call(&conflict, "/quick?key").await;
    assert_eq!(conflict.status(), StatusCode::CONFLICT);
    assert!(retry_after(&conflict).is_some());
    assert_eq!(scene.dropped.load(Ordering::SeqCst), 0, "a handler was called");
    held.unlock().await.unwrap();
    assert_eq!(call(&scene.layered(|layer| layer), "/quick?key").await.status(), StatusCode::OK);
}

/// Who is inside is known here; only how long for would have to be asked.
#[tokio::test]
async fn a_busy_key_is_told_so_although_the_store_stalls() {
    let server = Server::redis().await;
    let scene = Scene::new(Locks::connect(&server.url()).await.unwrap());
    let _held = scene.locks.mutex("key").lock().lease(LONG).await.unwrap();
    server.stop();
    let began = Stopwatch::start();
    let app = scene.layered(|layer| layer.wait(Duration::from_millis(5)));
    let locked = call(&app, "/quick?key").await;
    let took = began.elapsed();
    server.cont();
    assert_eq!(locked.status(), StatusCode::LOCKED);
    assert_eq!(retry_after(&locked), Some(1));
    // A question is asked again and again for three seconds.
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_store_that_is_away_is_503_and_a_bad_key_400() {
    let away = Locks::builder().url("redis://127.0.0.1:1").lazy().connect().await.unwrap();
    let scene = Scene::new(away);
    let answer = call(&scene.layered(|layer| layer), "/quick?key").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(retry_after(&answer), Some(1));
    let scene = Scene::new(Locks::memory());
    let app = scene.layered(|layer| layer);
    assert_eq!(call(&app, "/quick?").await.status(), StatusCode::BAD_REQUEST);
    let long = format!("/quick?{}", "x".repeat(5000));
    assert_eq!(call(&app, &long).await.status(), StatusCode::BAD_REQUEST);
    let never = scene.layered(|layer| layer.lease(Duration::ZERO));
    let wrong = call(&never, "/quick?key").await.status();
    assert_eq!(wrong, StatusCode::INTERNAL_SERVER_ERROR);
    scene.locks.close().await;
    assert_eq!(call(&app, "/quick?key").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(scene.dropped.load(Ordering::SeqCst), 0, "a handler was called");
}

#[tokio::test]
async fn a_lost_lock_stops_the_handler_and_its_own_refusal_stands() {
    let scene = Scene::new(Locks::memory());
    let app = scene.layered(|layer| layer);
    let slow = tokio::spawn(async move { call(&app, "/slow?key").await });
    eventually("inside", || async { scene.inside() == 1 }).await;
    assert!(scene.locks.mutex("key").force_unlock().await.unwrap());
    let answer = slow.await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(retry_after(&answer), Some(1));
    assert_eq!(scene.inside(), 0);
    let app = scene.layered(|layer| layer);
    assert_eq!(call(&app, "/bad?key").await.status(), StatusCode::IM_A_TEAPOT);
    // Long enough to be entered before it ends.
    let app = scene.layered(|layer| layer.lease(Duration::from_millis(500)));
    assert_eq!(call(&app, "/slow?key").await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_lock_along() {
    let scene = Scene::new(Locks::memory());
    let app = scene.layered(|layer| layer.wait(LONG));
    let calling = |uri: &'static str| {
        let app = app.clone();
        tokio::spawn(async move { call(&app, uri).await.status() })
    };
    let first = calling("/slow?key");
    eventually("inside", || async { scene.inside() == 1 }).await;
    let (second, third) = (calling("/slow?key"), calling("/quick?key"));
    tokio::task::yield_now().await;
    // One that waits and one that is inside.
    second.abort();
    first.abort();
    assert_eq!(third.await.unwrap(), StatusCode::OK);
    eventually("free", || async { scene.locks.list("").await.unwrap().is_empty() }).await;
}

/// The library's error as what a handler returns: a status, when to come back, and no word of what went wrong.
#[tokio::test]
async fn an_error_of_a_handler_is_a_status_without_words() {
    async fn pay(
        State(scene): State<Scene>,
        request: Request<Body>,
    ) -> distlock::Result<&'static str> {
        let name = request.uri().query().unwrap_or_default();
        let request = scene.locks.mutex(name).lock().wait(Duration::from_millis(5));
        let request = if name == "never" { request.lease(Duration::ZERO) } else { request };
        request.run(async |_| Ok("paid")).await
    }
    let app = |locks| Router::new().route("/pay", get(pay)).with_state(Scene::new(locks));
    let locks = Locks::memory();
    let away =
        Locks::builder().url("redis://user:canary@127.0.0.1:1").lazy().connect().await.unwrap();
    let _renewed = locks.mutex("renewed").lock().await.unwrap();
    let _leased = locks.mutex("leased").lock().lease(Duration::from_secs(90)).await.unwrap();
    locks.semaphore("conflict").init(1).await.unwrap();
    for (locks, key, status, after) in [
        (&locks, "free", StatusCode::OK, None),
        (&locks, "renewed", StatusCode::LOCKED, Some(1..=30)),
        (&locks, "leased", StatusCode::LOCKED, Some(31..=90)),
        (&locks, "", StatusCode::BAD_REQUEST, None),
        (&locks, "never", StatusCode::INTERNAL_SERVER_ERROR, None),
        (&locks, "conflict", StatusCode::INTERNAL_SERVER_ERROR, None),
        (&away, "key", StatusCode::SERVICE_UNAVAILABLE, Some(1..=1)),
    ] {
        let answer = call(&app(locks.clone()), &format!("/pay?{key}")).await;
        assert_eq!(answer.status(), status, "{key}");
        match after {
            Some(after) => assert!(after.contains(&retry_after(&answer).unwrap()), "{answer:?}"),
            None => assert_eq!(retry_after(&answer), None, "{answer:?}"),
        }
        let body = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
        assert_eq!(body, if status.is_success() { &b"paid"[..] } else { b"" }, "{key}");
    }
}

struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Account, Self::Rejection> {
        let query = parts.uri.query().ok_or((StatusCode::NOT_FOUND, "which account?"))?;
        Ok(Account(query.to_owned()))
    }
}

impl LockKey for Account {
    const WAIT: Duration = Duration::from_millis(50);

    fn lock_name(&self) -> String {
        format!("account:{}", self.0)
    }
}

#[tokio::test]
async fn a_handler_gets_its_lock_as_an_argument() {
    let scene = Scene::new(Locks::memory());
    let pay = async |State(scene): State<Scene>, locked: Locked<Account>| {
        let _inside = scene.enter();
        tokio::time::sleep(Duration::from_micros(100)).await;
        assert_eq!(locked.guard.name(), format!("account:{}", locked.key.0));
        Ok::<_, Infallible>(locked.key.0)
    };
    let app = Router::new().route("/pay", get(pay)).with_state(scene.clone());
    let done = crowd(&app, (0..10).map(|_| "/pay?7".to_owned())).await;
    assert!(done.iter().any(StatusCode::is_success));
    assert!(done.iter().all(|status| status.is_success() || *status == StatusCode::LOCKED));
    assert_eq!(scene.most.load(Ordering::SeqCst), 1, "two were inside");
    eventually("free", || async { scene.locks.list("").await.unwrap().is_empty() }).await;
    // The key's own refusal, and a lock that stays busy.
    assert_eq!(call(&app, "/pay").await.status(), StatusCode::NOT_FOUND);
    let _held = scene.locks.mutex("account:7").lock().lease(LONG).await.unwrap();
    let busy = call(&app, "/pay?7").await;
    assert_eq!(busy.status(), StatusCode::LOCKED);
    assert!(retry_after(&busy).unwrap() > 1);
}
