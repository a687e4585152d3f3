import java.io.IOException;
import java.util.Collections;
import java.util.EnumSet;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.web.HttpRequestHandler;
import org.springframework.web.context.support.GenericWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.handler.SimpleUrlHandlerMapping;
import sluice.client.SluiceClient;
import sluice.spring.LimitHandlerInterceptor;

/** The ways to limit HTTP: a filter of either servlet API, and Spring MVC's interceptor. */
final class Web {
  private Web() {}

  /** Starts three servers, and returns their ports. */
  static String serve(SluiceClient client) throws Exception {
    return " http_jakarta="
        + jakarta(client)
        + " http_javax="
        + javax(client)
        + " http_spring="
        + spring(client);
  }

  private static int jakarta(SluiceClient client) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setHostname("127.0.0.1");
    tomcat.setPort(0);
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    Context context = tomcat.addContext("", null);
    Tomcat.addServlet(
        context,
        "welcome",
        new jakarta.servlet.http.HttpServlet() {
          @Override
          protected void doGet(
              jakarta.servlet.http.HttpServletRequest request,
              jakarta.servlet.http.HttpServletResponse response)
              throws IOException {
            response.getWriter().print("welcome\n");
          }
        });
    context.addServletMappingDecoded("/*", "welcome");
    FilterDef filter = new FilterDef();
    filter.setFilterName("limits");
    filter.setFilter(
        new sluice.servlet.jakarta.LimitFilter(client, "shop", request -> Collections.emptyMap()));
    context.addFilterDef(filter);
    FilterMap all = new FilterMap();
    all.setFilterName("limits");
    all.addURLPattern("/*");
    context.addFilterMap(all);
    tomcat.getConnector();
    tomcat.start();
    return tomcat.getConnector().getLocalPort();
  }

  private static int javax(SluiceClient client) throws Exception {
    ServletContextHandler handler = new ServletContextHandler();
    handler.addFilter(
        new FilterHolder(
            new sluice.servlet.javax.LimitFilter(
                client, "shop", request -> Collections.emptyMap())),
        "/*",
        EnumSet.of(javax.servlet.DispatcherType.REQUEST));
    handler.addServlet(
        new ServletHolder(
            new javax.servlet.http.HttpServlet() {
              @Override
              protected void doGet(
                  javax.servlet.http.HttpServletRequest request,
                  javax.servlet.http.HttpServletResponse response)
                  throws IOException {
                response.getWriter().print("welcome\n");
              }
            }),
        "/*");
    return start(handler);
  }

  private static int spring(SluiceClient client) throws Exception {
    HttpRequestHandler welcome = (request, response) -> response.getWriter().print("welcome\n");
    Object limits = new LimitHandlerInterceptor(client, "shop", request -> Collections.emptyMap());
    RootBeanDefinition mapping = new RootBeanDefinition(SimpleUrlHandlerMapping.class);
    mapping.getPropertyValues().add("urlMap", Collections.singletonMap("/**", welcome));
    mapping.getPropertyValues().add("interceptors", new Object[] {limits});
    GenericWebApplicationContext beans = new GenericWebApplicationContext();
    beans.registerBeanDefinition("mapping", mapping);
    ServletContextHandler handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(new DispatcherServlet(beans)), "/");
    return start(handler);
  }

  private static int start(ServletContextHandler handler) throws Exception {
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(handler);
    server.start();
    return connector.getLocalPort();
  }
}
