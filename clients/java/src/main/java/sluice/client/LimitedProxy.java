package sluice.client;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.concurrent.Callable;

/** Makes {@link Limited} work on any interface, without a framework. */
public final class LimitedProxy {
  private LimitedProxy() {}

  /**
   * Returns a proxy of {@code target} that limits the methods annotated in the interface or the target.
   */
  public static <T> T of(SluiceClient client, Class<T> type, T target) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, arguments) -> call(client, target, method, arguments)));
  }

  private static Object call(SluiceClient client, Object target, Method method, Object[] arguments)
      throws Throwable {
    method.setAccessible(true); // `type` may be package-private
    Callable<Object> work = () -> method.invoke(target, arguments);
    Class<?> implementer = target.getClass();
    Limited limit = LimitedCall.limitOf(implementer, method);
    try {
      return limit == null
          ? work.call()
          : client.limited(LimitedCall.checkOf(limit, implementer, method, arguments), work);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }
}
